//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

const (
	maxPrompts  = 200      // of a server that are shown
	maxPrompt   = 64 << 10 // bytes of what one says
	maxArgument = 20       // arguments of a prompt that are used
	// promptPause is the least time between two lists of prompts, for a server that reports changes
	// again and again.
	promptPause   = time.Second
	promptTimeout = 30 * time.Second
)

// prompt is a prompt of the server as a slash command.
type prompt struct {
	parley.SlashCommand
	listed *sdk.Prompt
	name   string   // at the server
	args   []string // their names
	need   int      // how many of them, from the first on, are required
}

// relist lists the server's prompts again, soon. The caller holds the lock.
func (s *server) relist() {
	if s.again = true; s.relisting || s.life.Err() != nil {
		return
	}
	s.relisting = true
	s.work.Go(func() {
		for s.listsPrompts() {
			pause := time.NewTimer(promptPause)
			select {
			case <-pause.C:
			case <-s.life.Done():
				pause.Stop()
			}
		}
	})
}

// listsPrompts lists the prompts over the existing link if somebody has asked for them. It reports
// whether it did.
func (s *server) listsPrompts() bool {
	s.mu.Lock()
	l := s.cur
	if !s.again || s.life.Err() != nil || l == nil {
		s.relisting = false
		s.mu.Unlock()
		return false
	}
	s.again = false
	l.users++
	if l.idle != nil {
		l.idle.Stop()
	}
	s.mu.Unlock()
	defer s.leave(l)
	ctx, cancel := context.WithTimeout(s.life, promptTimeout)
	defer cancel()
	list, err := l.prompts(ctx)
	if err != nil {
		s.o.Logger.Warn("an MCP server does not list its prompts", "server", s.o.Name, "err", err)
		return true
	}
	s.mu.Lock()
	s.prompts = list
	s.mu.Unlock()
	s.prompted()
	return true
}

func (l *link) promptsChanged(context.Context, *sdk.PromptListChangedRequest) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.server.relist()
}

// prompts asks the server for its prompts.
func (l *link) prompts(ctx context.Context) (list []prompt, err error) {
	if init := l.session.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Prompts == nil {
		return nil, nil
	}
	seen, tokens := map[string]bool{}, l.server.o.tokens(ctx)
	next := ""
	for range maxPages {
		page, err := l.session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: next})
		if err != nil {
			return nil, l.explain(err)
		}
		for _, p := range page.Prompts {
			if p == nil || l.server.o.reveals(tokens, p.Name, p) {
				continue
			}
			made := l.server.o.prompt(p)
			if len(list) < maxPrompts && !seen[made.Name] {
				seen[made.Name] = true
				list = append(list, made)
			}
		}
		if next = page.NextCursor; next == "" || len(list) == maxPrompts {
			break
		}
	}
	return list, nil
}

// prompt makes a slash command of a prompt of the server. Its name begins with the server's name.
func (o Options) prompt(p *sdk.Prompt) prompt {
	about := p.Description
	if about == "" {
		about = p.Title
	}
	made := prompt{listed: p, name: p.Name, SlashCommand: parley.SlashCommand{
		Name: o.toolName(p.Name), Description: parley.Cut(o.clean(about, maxShown), 300), From: o.Name,
	}}
	var hint []string
	for i, a := range p.Arguments {
		if i == maxArgument || a == nil {
			break
		}
		made.args = append(made.args, a.Name)
		name := parley.Cut(o.clean(a.Name, 100), 60)
		if a.Required {
			made.need = i + 1
			hint = append(hint, name)
		} else {
			hint = append(hint, "["+name+"]")
		}
	}
	made.ArgumentHint = strings.Join(hint, " ")
	return made
}

// Commands implements [seam.Commander]. It returns the prompts that the server listed last, and
// none before the server was first used.
func (t *Toolset) Commands() []parley.SlashCommand {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	var list []parley.SlashCommand
	for _, p := range t.server.prompts {
		list = append(list, p.SlashCommand)
	}
	return list
}

// Expand implements [seam.Commander]. It asks the server for the text of the prompt. The arguments
// are assigned in order, and the last one takes the rest.
func (t *Toolset) Expand(ctx context.Context, name, args string) (string, error) {
	p, ok := t.prompt(name)
	if !ok {
		return "", parley.Errorf(parley.CodeNotFound, "there is no command /%s", parley.Cut(name, 80))
	}
	given := split(args, len(p.args))
	if len(given) < p.need {
		return "", parley.Errorf(parley.CodeInvalid, "/%s needs %s", name, p.args[len(given)]).WithField("message").
			WithHint("write /%s %s", name, p.ArgumentHint)
	}
	ctx, cancel := context.WithTimeout(ctx, promptTimeout)
	defer cancel()
	l, leave, err := t.server.use(ctx, nil)
	if err != nil {
		return "", err
	}
	defer leave()
	params := &sdk.GetPromptParams{Name: p.name, Arguments: map[string]string{}}
	for i, v := range given {
		params.Arguments[p.args[i]] = v
	}
	ctx, left, err := l.enterForNobody(ctx)
	if err != nil {
		return "", t.unsaid(name, err)
	}
	tokens := t.o.tokens(ctx)
	res, err := l.session.GetPrompt(ctx, params)
	tokens = append(tokens, t.o.tokens(ctx)...) // they may have been renewed meanwhile
	left(err)
	switch {
	case err != nil:
		return "", t.unsaid(name, errors.New(without(tokens, l.explain(err).Error())))
	case len(res.InputRequests) > 0:
		return "", t.unsaid(name, errors.New("it asks for input, which is not supported for prompts"))
	}
	l.server.worked(l)
	var parts []string
	size := 0
	for _, m := range res.Messages {
		text := without(tokens, t.o.said(m))
		if size += len(text); size > maxPrompt {
			return "", parley.Errorf(parley.CodeTooLarge, "the text of /%s has more than %d bytes", name, maxPrompt).WithField("message")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n\n"), nil
}

func (t *Toolset) unsaid(name string, err error) error {
	return parley.Errorf(parley.CodeUnavailable, "the MCP server %s does not return the text of /%s: %s", t.o.Name, name, t.o.clean(err.Error(), maxShown)).WithField("message")
}

func (t *Toolset) prompt(name string) (prompt, bool) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	for _, p := range t.server.prompts {
		if p.Name == name {
			return p, true
		}
	}
	return prompt{}, false
}

// said returns one message of a prompt as text.
func (o Options) said(m *sdk.PromptMessage) string {
	if m == nil {
		return ""
	}
	text := ""
	switch c := m.Content.(type) {
	case *sdk.TextContent:
		text = strings.ToValidUTF8(c.Text, "\uFFFD")
	case *sdk.EmbeddedResource:
		if c.Resource == nil || c.Resource.Blob != nil {
			text = "(a file that is not shown here)"
			break
		}
		text = o.clean(c.Resource.URI, maxShown) + "\n" + strings.ToValidUTF8(c.Resource.Text, "\uFFFD")
	case *sdk.ResourceLink:
		text = o.clean(fmt.Sprintf("%s: %s %s", c.URI, c.Name, c.Description), maxShown)
	default:
		text = "(content that is not shown here)"
	}
	if m.Role == "assistant" {
		text = "Assistant: " + text
	}
	return text
}

// split splits arguments at spaces, except within double quotes. The last of most arguments takes
// the rest.
func split(args string, most int) (list []string) {
	rest := strings.TrimSpace(args)
	for rest != "" && len(list) < most {
		if len(list) == most-1 {
			return append(list, strings.Trim(rest, `"`))
		}
		if quoted, after, ok := strings.Cut(strings.TrimPrefix(rest, `"`), `"`); ok && strings.HasPrefix(rest, `"`) {
			list, rest = append(list, quoted), strings.TrimSpace(after)
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		list, rest = append(list, word), strings.TrimSpace(after)
	}
	return list
}
