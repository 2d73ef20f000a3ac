package claudecli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
)

// opening is what the CLI is told at the beginning of an attempt.
type opening struct {
	id      string
	content []any // nil: it is at work already
}

// open gets a process for the turn and decides what to tell it.
func (t *turn) open(ctx context.Context) (o opening, err error) {
	s := t.h.State()
	if s.Turn == nil {
		return o, errGone
	}
	need, err := t.needs(s)
	if err != nil {
		return o, err
	}
	before := parley.TurnID("")
	if n := len(s.History); n > 0 {
		before = s.History[n-1].Turn
	}
	began := len(s.Turn.Agents) > 0 && s.Turn.Agents[0].Replied()
	known := 0
	fits := func(p *process) bool {
		need.cli = p.spec.cli
		return p.spec.same(need) && (p.last == s.Turn.ID || !began && p.last == before)
	}
	p, fresh, err := t.rt.pool.get(ctx, s.ID, s.Principal(), fits, func(leave func()) (*process, error) {
		if !t.anew {
			need.cli, need.resumeAt, known = t.resumable(ctx, s, need.home, need.dir)
		}
		if need.resume = known > 0; !need.resume {
			need.cli = newUUID()
			t.afresh = true
		}
		if err := os.MkdirAll(need.home, 0o700); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "the folder for the Claude CLI's files cannot be made: %w", err)
		}
		if err := os.WriteFile(filepath.Join(need.home, sessionFile), []byte(need.cli), 0o600); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "the folder for the Claude CLI's files cannot be written: %w", err)
		}
		p, err := t.rt.start(ctx, need, leave)
		if err != nil && need.resume && ctx.Err() == nil {
			// The CLI does not know the conversation, or not all of it. It gets a new one.
			t.rt.opt.Logger.Info("the Claude CLI could not continue a conversation, and begins another", "session", s.ID, "err", err)
			if leave, err = t.rt.pool.enter(ctx, s.Principal()); err != nil {
				return nil, err
			}
			known, need.resume, need.cli, t.afresh = 0, false, newUUID(), true
			if err := os.WriteFile(filepath.Join(need.home, sessionFile), []byte(need.cli), 0o600); err != nil {
				return nil, err
			}
			p, err = t.rt.start(ctx, need, leave)
		}
		return p, err
	})
	if err != nil {
		return o, err
	}
	t.p = p
	p.mu.Lock()
	goesOn, own := !fresh && p.last == s.Turn.ID, !fresh && p.begun && s.Turn.Request.Origin == parley.OriginRuntime
	p.last = s.Turn.ID
	p.mu.Unlock()
	said := steers(s.Turn, t.entry)
	o.id = t.messageID("message")
	switch {
	case own:
	case goesOn: // a hook has something to say about how the turn ended
		from := min(p.heard, len(said))
		for _, parts := range said[from:] {
			content, err := t.content(ctx, parts)
			if err != nil {
				return o, err
			}
			o.content = append(o.content, content...)
		}
		o.id = t.messageID(fmt.Sprintf("again %d", len(said)))
		t.heard = len(said)
		if o.content == nil {
			o.content = words("Go on.")
		}
	default:
		t.recall(s.Turn)
		if o.content, err = t.prompt(ctx, s, fresh, known); err != nil {
			return o, err
		}
	}
	p.attach(t)
	if err := t.syncMode(ctx, s); err != nil {
		return o, err
	}
	return o, nil
}

// needs says what a process for the turn has to be like.
func (t *turn) needs(s *parley.Session) (spec, error) {
	dir, readOnly, err := t.h.Folder()
	if err != nil {
		return spec{}, err
	}
	home := filepath.Join(t.rt.opt.Data, string(s.ID))
	if dir == "" {
		dir = filepath.Join(home, "work")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return spec{}, parley.Errorf(parley.CodeUnavailable, "the folder for the Claude CLI cannot be made: %w", err)
		}
	}
	name, _ := t.rt.modelsOf(t.app, s, &parley.Agent{Name: string(t.entry)})
	m, err := t.rt.models.Model(name)
	if err != nil {
		return spec{}, err
	}
	model := DefaultModel
	if m.Info().Provider == provider {
		_, model, _ = strings.Cut(name, "/")
	}
	k := kitOf(t.app, string(t.entry), s.Turn.Request.NoTools)
	return spec{
		session: s.ID, dir: dir, home: home, model: model, mode: modeOf(t.app, s), tools: k.cli, prompt: t.app.Agents[string(t.entry)].Prompt,
		agents: k.agents, servers: k.servers, ours: k.ours, readOnly: readOnly,
	}, nil
}

// DefaultModel is what the CLI takes a model for that is not of its provider: it decides how much it
// believes to fit.
const DefaultModel = "claude-sonnet-5-5"

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func words(text string) []any { return []any{map[string]any{"type": "text", "text": text}} }

// prompt is the turn's message for the CLI. A conversation that lacks earlier turns is told of them.
func (t *turn) prompt(ctx context.Context, s *parley.Session, fresh bool, known int) ([]any, error) {
	var content []any
	if fresh {
		if text := cutOff(s, known); text != "" {
			content = append(content, words(text)...)
		}
		if text := memory(s, known); text != "" {
			t.note(t.entry, reminded(s, known, text))
			content = append(content, words(text)...)
		}
	}
	if text := prompt.TakenBack(s.Taken); text != "" {
		content = append(content, words(text)...)
	}
	own, err := t.content(ctx, s.Turn.Request.Message.Parts)
	if err != nil {
		return nil, err
	}
	if own == nil {
		own = words("[no text]")
	}
	content = append(content, own...)
	if text := strings.TrimPrefix(parley.WithHooks("", s.Turn.Told), "\n"); text != "" {
		content = append(content, words(text)...)
	}
	return append(content, words(note(s))...), nil
}

// content is what the parts of a message are for the CLI.
func (t *turn) content(ctx context.Context, parts []parley.Part) (list []any, err error) {
	for _, p := range parts {
		switch {
		case p.Type == parley.PartCommand:
			list = append(list, words("[/"+p.Name+" stands for:]\n"+p.Text)...)
		case p.Type == parley.PartImage || p.Type == parley.PartFile:
			if p.Server != "" {
				list = append(list, words(prompt.Resource(p))...)
			}
			f, err := t.h.Open(ctx, p.Artifact)
			switch {
			case err != nil && parley.CodeOf(err) != parley.CodeNotFound:
				return nil, err
			case err != nil:
				list = append(list, words("[attached: "+p.Name+", which is not there any more]")...)
			case slices.Contains(imageTypes, f.MediaType):
				list = append(list, media("image", f.MediaType, f.Body))
			case f.MediaType == "application/pdf":
				list = append(list, media("document", f.MediaType, f.Body))
			default:
				list = append(list, words("[attached: "+p.Name+", which you cannot see]")...)
			}
		case p.Type == parley.PartAttachment:
			list = append(list, words(prompt.Attachment(p))...)
		case p.Type == parley.PartResource:
			list = append(list, words(prompt.Resource(p))...)
		case strings.TrimSpace(p.Text) != "":
			list = append(list, words(p.Text)...)
		}
	}
	return list, nil
}

func media(kind, mediaType string, body []byte) any {
	return map[string]any{"type": kind, "source": map[string]string{"type": "base64", "media_type": mediaType, "data": base64.StdEncoding.EncodeToString(body)}}
}

// note is what the model has to know about this turn.
func note(s *parley.Session) string {
	t := s.Turn
	var b strings.Builder
	b.WriteString("[about this turn]\nnow: " + prompt.When(t))
	if t.Request.Origin == parley.OriginRuntime {
		b.WriteString("\nThe user has not said anything: this is about your own work in the background.")
	}
	section := func(title string) { b.WriteString("\n\n## " + title) }
	for i, p := range s.Pins {
		if i == 0 {
			section("Pinned")
		}
		b.WriteString("\n" + p.Label + ": " + p.Text)
	}
	if len(s.Preferences) > 0 {
		if raw, err := json.Marshal(s.Preferences); err == nil { // sorted by key
			section("The user's preferences")
			b.WriteString("\n" + string(raw))
		}
	}
	if len(t.Request.Hints) > 0 {
		if raw, err := json.Marshal(t.Request.Hints); err == nil {
			section("Hints from the caller")
			b.WriteString("\n" + string(raw))
		}
	}
	if len(t.Attached) > 0 {
		section("Attached entities")
		b.WriteString("\n" + strings.TrimRight(parley.AttachedText(t.Attached), "\n"))
	}
	for i, sn := range t.Snippets {
		if i == 0 {
			section("Looked up for this question")
		}
		fmt.Fprintf(&b, "\n[%s %s] %s", sn.Source, sn.Ref, sn.Text)
	}
	return b.String()
}

// maxMemory limits what a new conversation is told of earlier turns, in bytes.
const maxMemory = 256 << 10

// cutOff tells a conversation what became of the calls of the last turn that it contains, if that did not
// complete. What the CLI itself says of calls that were under way may be wrong.
func cutOff(s *parley.Session, known int) string {
	if known == 0 || known > len(s.History) {
		return ""
	}
	x := s.History[known-1]
	did := prompt.Effects(x)
	if x.Status == parley.StatusCompleted || did == "" {
		return ""
	}
	return "<previous-turn>\nThe turn before ended as " + string(x.Status) + ". This is what is known of it:\n" + did + "\n</previous-turn>"
}

// reminded is a note for people that the CLI does not continue a conversation of its own, and what it is told of it. Parts of it may be
// left out.
func reminded(s *parley.Session, known int, text string) parley.RuntimeNoted {
	says := "The Claude CLI begins a conversation of its own, and is told of the one so far."
	if known > 0 {
		says = "The Claude CLI continues an earlier point of the conversation, and is told of what was said since."
	}
	told := strings.TrimSpace(strings.NewReplacer("<restored-history>\n", "", "</restored-history>", "").Replace(text))
	if len(told) > maxTold {
		told = strings.ToValidUTF8(told[:maxTold], "") + "\n…"
	}
	data, _ := json.Marshal(struct { // strings always encode
		Told string `json:"told"`
	}{told})
	return parley.RuntimeNoted{Kind: "restored", Text: says, Data: data}
}

// maxTold limits what the log has of it, in bytes: beyond it the messages themselves say more.
const maxTold = 6000

// memory tells a conversation about the turns that it does not contain: all but the first known ones.
func memory(s *parley.Session, known int) string {
	var b strings.Builder
	if known == 0 {
		if len(s.Told) > 0 {
			b.WriteString("From the start of the session:\n" + strings.TrimPrefix(parley.WithHooks("", s.Told), "\n") + "\n")
		}
		if s.Summary != "" {
			b.WriteString("Summary of what was said before:\n" + s.Summary + "\n\n")
		}
		for i, f := range s.Facts {
			if i == 0 {
				b.WriteString("What is known:\n")
			}
			b.WriteString("- " + f.Text + "\n")
		}
	}
	list := s.History[min(known, len(s.History)):]
	if k := s.Memory.LastK; k > 0 {
		list = list[max(0, len(list)-(k+1)/2):]
	}
	var turns []string
	size := 0
	for _, x := range slices.Backward(list) {
		text := "\n[user]\n" + x.User.Text() + "\n"
		for _, more := range []string{prompt.TakenBack(x.Taken), prompt.Found(x)} {
			if more != "" {
				text += more + "\n"
			}
		}
		reply := strings.TrimSpace(x.Reply)
		if x.Status != parley.StatusCompleted {
			reply = strings.TrimSpace(reply + "\n[the turn ended as " + string(x.Status) + "]")
		}
		text += "[you]\n" + strings.TrimSpace(reply+"\n"+prompt.Effects(x)) + "\n"
		if size += len(text); size > maxMemory {
			break
		}
		turns = append(turns, text)
	}
	for _, text := range slices.Backward(turns) {
		b.WriteString(text)
	}
	if b.Len() == 0 {
		return ""
	}
	return "<restored-history>\nThis conversation began earlier. Do not repeat what was done. What was said and done so far:\n" + b.String() + "</restored-history>"
}
