//go:build unix

package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxAsks   = 20      // questions of one call
	maxRounds = 10      // of questions in one call of the newer era
	maxTries  = 3       // to fill in a form correctly
	maxLink   = 2 << 10 // bytes of a link that a person is asked to open
)

// asker asks a human on behalf of a server, in the middle of a call.
type asker struct {
	o    Options
	r    seam.Run
	over context.Context // ends with the call
	stop func(error)     // ends the call

	mu     sync.Mutex
	asked  map[string]int // how often each question was asked
	count  int
	model  int // how often it asked for a reply of the model
	secret int
	parked bool // an answer is missing, so the call ends and is made again later
}

// elicit asks the question of a server.
func (a *asker) elicit(ctx context.Context, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	key, err := a.key("mcp-", &a.count, maxAsks, p.Mode, p.Message, p.RequestedSchema, p.URL)
	if err != nil {
		return nil, err
	}
	if p.Mode == "url" || p.Mode == "" && p.URL != "" {
		return a.open(ctx, key, p)
	}
	f, err := a.o.form(p)
	if err != nil {
		return nil, err
	}
	wrong := ""
	for try := range maxTries {
		content, action, err := a.fill(ctx, fmt.Sprintf("%s.%d", key, try), f, wrong)
		if err != nil || action != "accept" {
			return &sdk.ElicitResult{Action: action}, err
		}
		if wrong = f.check(content); wrong == "" {
			return &sdk.ElicitResult{Action: action, Content: content}, nil
		}
	}
	return &sdk.ElicitResult{Action: "cancel"}, nil
}

// key identifies a question among those of the call. It is the same when the call is made again and
// asks the same question. count counts the questions of this kind; most is their limit.
func (a *asker) key(kind string, count *int, most int, what ...any) (string, error) {
	raw, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	key := kind + hex.EncodeToString(sum[:8])
	a.mu.Lock()
	defer a.mu.Unlock()
	if *count++; *count > most {
		return "", fmt.Errorf("a call may ask %d times", most)
	}
	if a.asked == nil {
		a.asked = map[string]int{}
	}
	a.asked[key]++
	return fmt.Sprintf("%s-%d", key, a.asked[key]), nil
}

// ask asks a human, and notes if there is no answer yet.
func (a *asker) ask(ctx context.Context, in parley.Interaction) (parley.Answer, error) {
	if a.r.Ask == nil {
		return parley.Answer{Choice: parley.ChoiceDeny, Text: "there is nobody to ask"}, nil
	}
	in.Choices = []string{parley.ChoiceAnswered, parley.ChoiceDeny}
	answer, err := a.r.Ask(ctx, in)
	a.parks(err)
	return answer, err
}

// parks ends the call if its question has no answer yet.
func (a *asker) parks(err error) {
	if errors.Is(err, seam.ErrParked) {
		a.mu.Lock()
		a.parked = true
		a.mu.Unlock()
		a.stop(err)
	}
}

// action is the protocol's word for an answer. When a person declines, there is no reason; when
// nobody could be asked or the time was over, there is one.
func action(answer parley.Answer) string {
	switch {
	case answer.Choice == parley.ChoiceAnswered:
		return "accept"
	case answer.Text == "":
		return "decline"
	}
	return "cancel"
}

// open asks a person to open a page of the server.
func (a *asker) open(ctx context.Context, key string, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil || len(p.URL) > maxLink || u.Host == "" || u.User != nil || strings.ContainsFunc(p.URL, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the link is not one that a person can be asked to open")
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return nil, errors.New("the link has to begin with https://")
	}
	const done = "Have you finished there?"
	answer, err := a.ask(ctx, parley.Interaction{
		Kind: parley.KindQuestion, Key: key, Title: a.title(p.Message), URL: p.URL,
		Text:      fmt.Sprintf("The MCP server %s asks you to open a page of %s. What you enter there does not go through Parley.\n%s", a.o.Name, u.Host, p.URL),
		Questions: []parley.Question{{Header: "Page", Question: done, Options: []parley.Option{{Label: "Done", Description: "I have opened the page"}}}},
	})
	if err != nil {
		return nil, err
	}
	return &sdk.ElicitResult{Action: action(answer)}, nil
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

func (a *asker) title(message string) string {
	return fmt.Sprintf("%s asks: %s", a.o.Name, cmp.Or(parley.Cut(oneLine(a.o.clean(message, maxShown)), 500), "for something"))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// fill asks a person to fill in a form. Secret fields are asked for separately, because a secret
// must not be in an event.
func (a *asker) fill(ctx context.Context, key string, f *form, wrong string) (content map[string]any, act string, err error) {
	content = map[string]any{}
	text := fmt.Sprintf("The MCP server %s needs this to go on with %s.", a.o.Name, a.r.Name)
	if wrong != "" {
		text = sentenceCase(wrong) + "\n" + text
	}
	if questions := f.questions(); len(questions) > 0 || len(f.fields) == 0 {
		if len(questions) == 0 {
			questions = []parley.Question{{Question: "Do you agree?", Header: "Agree", Options: []parley.Option{{Label: "Yes"}}}}
		}
		answer, err := a.ask(ctx, parley.Interaction{Kind: parley.KindQuestion, Key: key, Title: a.title(f.message), Text: text, Questions: questions})
		if err != nil || answer.Choice != parley.ChoiceAnswered {
			return nil, action(answer), err
		}
		for _, d := range f.fields {
			if v, ok := d.value(answer.Answers[d.label]); ok && !d.secret {
				content[d.name] = v
			}
		}
	}
	for _, d := range f.fields {
		if !d.secret {
			continue
		}
		name := a.secretName(d.name)
		answer, err := a.ask(ctx, parley.Interaction{
			Kind: parley.KindCredential, Key: key + "." + d.name, Title: a.title(f.message), Credentials: []string{name},
			Text: fmt.Sprintf("%s. It goes to the MCP server %s, and is not stored.", strings.TrimSuffix(d.label, "."), a.o.Name),
		})
		if err != nil || answer.Choice != parley.ChoiceAnswered {
			return nil, action(answer), err
		}
		content[d.name] = answer.Secrets[name]
	}
	return content, "accept", nil
}

// secretName is the name under which a secret is asked for.
func (a *asker) secretName(field string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secret++
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, a.o.Name+"_"+parley.Cut(field, 24))
	if a.secret > 1 {
		name += fmt.Sprintf("_%d", a.secret)
	}
	return name
}

func sentenceCase(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// fulfil answers the questions that a server of the newer era returned as a result.
func (a *asker) fulfil(ctx context.Context, asks sdk.InputRequestMap) (sdk.InputResponseMap, error) {
	responses := sdk.InputResponseMap{}
	for _, id := range sorted(asks) {
		switch p := asks[id].(type) {
		case *sdk.ElicitParams:
			res, err := a.elicit(ctx, p)
			if err != nil {
				return nil, err
			}
			responses[id] = res
		case *askedForRoots:
			if a.o.Roots == nil {
				return nil, errors.New("it asks for folders, but there are none for it")
			}
			responses[id] = a.o.listRoots()
		case *askedForReply:
			if !a.o.Sampling {
				return nil, errors.New("it asks for a reply from the model, which is not allowed")
			}
			res, err := a.sample(ctx, p)
			if err != nil {
				return nil, err
			}
			responses[id] = res
		default:
			return nil, fmt.Errorf("it asks for %T, which is not supported", p)
		}
	}
	return responses, nil
}
