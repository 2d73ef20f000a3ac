package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/redact/redacttest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/function"
	"github.com/parley-server/parley/tool"
)

// Variables that a test gives to a program it starts.
const (
	// deskVariable is the address of a service outside the program. If it is set, the tables
	// have the toolset "desk", which calls that service, and a model that uses it.
	deskVariable = "PARLEY_TEST_DESK"
	// paceVariable is the time that this model takes for each word.
	paceVariable = "PARLEY_TEST_PACE"
	// postVariable is the service's time limit for a mail. If it is not set, the limit is long.
	postVariable = "PARLEY_TEST_POST"
	// goVariable makes the tool of "desk" a Go function whose calls end with the process.
	goVariable = "PARLEY_TEST_GO"
	// bankVariable is the address of a service. If it is set, the tables have the toolset
	// "bank", whose tool sends a credential there.
	bankVariable = "PARLEY_TEST_BANK"
	// leashVariable makes the program end when its standard input is closed. So no program
	// outlives the test that started it, however the test ends.
	leashVariable = "PARLEY_TEST_LEASH"
	// waitVariable makes the program wait, as it does in production, until a write that its
	// previous life started is over. Without it, no program waits for that in real time.
	waitVariable = "PARLEY_TEST_WAIT"
	// awayVariable is how long a command waits for a server that is away.
	awayVariable = "PARLEY_TEST_AWAY"
)

// init adds a line to the product's own tables, for the program under test.
func init() {
	nothingRuns = os.Getenv(waitVariable) == ""
	awayFor, _ = time.ParseDuration(os.Getenv(awayVariable))
	if os.Getenv(leashVariable) == "1" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	if at := os.Getenv(bankVariable); at != "" {
		toolsets["bank"] = func(app.ToolDeps) (app.Service, error) {
			made, err := function.Make([]function.Tool{payFrom(at)})
			return app.Service{Toolset: made}, err
		}
	}
	toolsets["doubt"] = func(app.ToolDeps) (app.Service, error) { return app.Service{Toolset: doubt{}}, nil }
	url := os.Getenv(deskVariable)
	if url == "" {
		return
	}
	pace, _ := time.ParseDuration(os.Getenv(paceVariable))
	post, err := time.ParseDuration(os.Getenv(postVariable))
	if err != nil {
		post = time.Minute
	}
	toolsets["desk"] = func(app.ToolDeps) (app.Service, error) {
		if os.Getenv(goVariable) == "" {
			return app.Service{Toolset: desk{url, post}}, nil
		}
		made, err := function.Make([]function.Tool{desk{url, post}.function()})
		return app.Service{Toolset: made}, err
	}
	unaided["desk"] = func(config.Settings, []*config.App) ([]seam.Model, error) { return []seam.Model{clerk{pace, url}}, nil }
}

// doubt is a toolset with a write that asks its user whether it is meant.
type doubt struct{}

func (doubt) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "doubt", Description: "Doubt.", Effect: parley.EffectWrite, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (doubt) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	a, err := r.Ask(ctx, parley.Interaction{Kind: parley.KindConfirmation, Key: "sure", Title: "Sure?", Choices: []string{parley.ChoiceAllow, parley.ChoiceDeny}})
	return parley.ToolResult{Output: "the answer is " + a.Choice}, err
}

// payFrom is a Go function as a tool. It sends a credential to a service and repeats it.
func payFrom(at string) tool.Tool {
	type in struct {
		Text string `json:"text"`
	}
	return tool.New(tool.Def{
		Name: "go_pay", Description: "Pays.", Credentials: []parley.CredentialDecl{{Name: "GO_TOKEN", Hosts: []string{"127.0.0.1"}}},
	}, func(ctx context.Context, i in) (string, error) {
		c := tool.From(ctx)
		token, err := c.Credential("GO_TOKEN", "127.0.0.1")
		if err != nil {
			return "", tool.NoEffect(err)
		}
		for _, refused := range [][2]string{{"GO_TOKEN", "localhost"}, {"HTTP_TOKEN", "127.0.0.1"}} {
			if _, err := c.Credential(refused[0], refused[1]); err == nil {
				return "", fmt.Errorf("%v is not refused", refused)
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(i.Text))
		if err != nil {
			return "", tool.NoEffect(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		c.Progress("paying with " + token)
		if err := c.Keep("receipt.txt", "text/plain", []byte("paid with "+token)); err != nil {
			return "", err
		}
		bank := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := bank.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		if err == nil && resp.StatusCode != http.StatusOK {
			err = tool.NoEffect(fmt.Errorf("%s with %s: %s", resp.Status, token, said))
		}
		return string(said), err
	})
}

// desk is a toolset with a write that cannot be repeated, and whose service cannot be asked about
// it.
type desk struct {
	url     string
	timeout time.Duration
}

func (d desk) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{
		Name: "mail", Description: "Mail a text.", Effect: parley.EffectWrite, Timeout: parley.Duration(d.timeout),
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	}}, nil
}

func (d desk) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(r.Input))
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return parley.ToolResult{}, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return parley.ToolResult{}, err
	}
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: string(said)}, nil
}

// function is the same tool as a Go function.
func (d desk) function() tool.Tool {
	type in struct {
		Text string `json:"text"`
	}
	return tool.New(tool.Def{Name: "mail", Description: "Mail a text.", Timeout: d.timeout, Inside: true}, func(ctx context.Context, i in) (string, error) {
		raw, err := json.Marshal(i)
		if err != nil {
			return "", tool.NoEffect(err)
		}
		res, err := d.Run(ctx, seam.Run{Input: raw})
		return res.Output, err
	})
}

// clerk is a model that does what it is told:
//
//	mail TEXT   talks, mails the text, talks again
//	mails N     talks and mails a letter, N times, then talks again
//	say N SIZE  says N fragments of SIZE bytes
//	talk N      says N words
//	hold        asks the service, and says what that answers, which may take long
//	leak SEED   thinks and says the secrets of that seed, three bytes at a time
//
// with a pace for each word of its talk.
type clerk struct {
	pace time.Duration
	url  string
}

func (clerk) Info() seam.ModelInfo {
	return seam.ModelInfo{Name: "test/clerk", Provider: "test", Scripted: true, ContextTokens: 100_000_000, MaxOutputTokens: 10_000_000}
}

func (m clerk) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		var said strings.Builder
		say := func(text string) bool {
			said.WriteString(text)
			return yield(seam.ModelDelta{Text: text}, nil)
		}
		talk := func(n int) bool {
			tick := time.NewTicker(max(m.pace, 1))
			defer tick.Stop()
			for i := range n {
				if m.pace > 0 {
					select {
					case <-tick.C:
					case <-ctx.Done():
						yield(seam.ModelDelta{}, context.Cause(ctx))
						return false
					}
				}
				if !say(fmt.Sprintf("word%d ", i)) {
					return false
				}
			}
			return true
		}
		reply := seam.Reply{Model: "test/clerk", StopReason: "end_turn", Usage: parley.Usage{InputTokens: 10, OutputTokens: 10}}
		asked, results := task(r), mailed(r)
		var n, size int
		var seed uint64
		switch {
		case scan(asked, "leak %d", &seed):
			text := planted(seed)
			for ; text != ""; text = text[min(3, len(text)):] {
				if m.pace > 0 && len(text)%60 < 3 {
					select {
					case <-time.After(m.pace):
					case <-ctx.Done():
						yield(seam.ModelDelta{}, context.Cause(ctx))
						return
					}
				}
				if !yield(seam.ModelDelta{Thinking: text[:min(3, len(text))]}, nil) || !say(text[:min(3, len(text))]) {
					return
				}
			}

		case strings.HasPrefix(asked, "mail ") && len(results) == 0:
			if !talk(30) {
				return
			}
			reply.Parts = []parley.Part{enginetest.Call("mail", map[string]string{"text": strings.TrimPrefix(asked, "mail ")})}
		case strings.HasPrefix(asked, "mail "):
			if !talk(60) || !say(results[len(results)-1]) {
				return
			}
		case scan(asked, "mails %d", &n):
			if !talk(20) {
				return
			}
			if len(results) < n {
				reply.Parts = []parley.Part{enginetest.Call("mail", map[string]string{"text": fmt.Sprint("letter ", len(results))})}
			}
		case asked == "hold":
			answer, err := hold(ctx, m.url)
			if err != nil {
				yield(seam.ModelDelta{}, err)
				return
			}
			if !say(answer) {
				return
			}
		case scan(asked, "talk %d", &n):
			if !talk(n) {
				return
			}
		case scan(asked, "say %d %d", &n, &size):
			for i := range n {
				if !say(fmt.Sprintf("%0*d", size, i)) {
					return
				}
			}
		default:
			if !say("You said: " + asked) {
				return
			}
		}
		if said.Len() > 0 {
			reply.Parts = append([]parley.Part{{Type: parley.PartText, Text: said.String()}}, reply.Parts...)
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// hold returns the service's answer.
func hold(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return string(said), err
}

// planted returns the secrets of a seed, each in a sentence.
func planted(seed uint64) string {
	var b strings.Builder
	for _, s := range redacttest.Secrets(seed) {
		b.WriteString(s.Text() + " and then ")
	}
	return b.String()
}

// mailed returns the results of the mails since the task.
func mailed(r seam.Request) []string {
	var out []string
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Type == parley.PartToolResult:
				out = append(out, p.Text)
			case p.Type == parley.PartText && m.Role == parley.RoleUser && !strings.HasPrefix(p.Text, "["):
				out = nil
			}
		}
	}
	return out
}

func scan(s, format string, into ...any) bool {
	n, err := fmt.Sscanf(s, format, into...)
	return err == nil && n == len(into)
}

// task returns the user's last message. The loop's own note that a reply was cut off is not a
// task.
func task(r seam.Request) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		for _, p := range r.Messages[i].Parts {
			if r.Messages[i].Role == parley.RoleUser && p.Type == parley.PartText && !strings.HasPrefix(p.Text, "[") {
				return p.Text
			}
		}
	}
	return ""
}
