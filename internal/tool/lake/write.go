package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// author is who a call's change is by.
func (c call) author() lake.Author {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '<' || r == '>' {
			return -1
		}
		return r
	}, c.Principal.User)
	if name = strings.TrimSpace(parley.Cut(name, 100)); name == "" {
		name = "parley"
	}
	at := c.Principal.Org
	if at == "" {
		at = "localhost"
	}
	email := strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || r == '<' || r == '>' {
			return '-'
		}
		return r
	}, name+"@"+parley.Cut(at, 80))
	if strings.Count(name, "@") == 1 && !strings.Contains(name, " ") {
		email = name // the user is known by an address
	}
	return lake.Author{Name: name, Email: email}
}

// change is a change by the call.
func (c call) change(path, reason string) lake.Change {
	return lake.Change{Path: path, Author: c.author(), Reason: oneLine(reason), Key: string(c.Call), Turn: c.Turn}
}

// announce says in the log which files are about to be changed.
func (c call) announce(ctx context.Context, paths ...string) error {
	if c.ReadOnly {
		return parley.Errorf(parley.CodeForbidden, "the lake is read-only")
	}
	return c.Changes(ctx, paths...)
}

// done is the result of a change that was made, or the error of one that was not.
func (c call) done(ctx context.Context, made lake.Made, err error) (parley.ToolResult, error) {
	if err != nil {
		return parley.ToolResult{}, err
	}
	return c.made(ctx, made), nil
}

// made says what a change did, for the model and for people.
func (c call) made(ctx context.Context, made lake.Made) parley.ToolResult {
	if made.Commit == "" {
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: made.Path + " is as it should be already; nothing was changed."}
	}
	var b strings.Builder
	switch {
	case c.Name == "lake_create":
		fmt.Fprintf(&b, "%s was created", made.Path)
	case c.Name == "lake_move":
		fmt.Fprintf(&b, "It is %s now", made.Path)
	case made.Version == "":
		fmt.Fprintf(&b, "%s was deleted", made.Path)
	default:
		fmt.Fprintf(&b, "%s was changed", made.Path)
	}
	fmt.Fprintf(&b, ", in commit %s.", made.Commit[:min(12, len(made.Commit))])
	if made.Version != "" {
		fmt.Fprintf(&b, " Its version is %s.", made.Version)
	}
	if made.Merged {
		b.WriteString(" Somebody else has changed it meanwhile; both changes are in it.")
	}
	if n := len(made.Rewritten); n > 0 {
		const most = 20
		fmt.Fprintf(&b, " Links were changed in %s", strings.Join(made.Rewritten[:min(n, most)], ", "))
		if n > most {
			fmt.Fprintf(&b, " and %d more", n-most)
		}
		b.WriteByte('.')
	}
	res := parley.ToolResult{Outcome: parley.OutcomeOK, Output: b.String()}
	saved, err := c.lake.Saved(ctx, made.Commit)
	if err == nil { // the change is made, whether it can be shown or not
		res.Saved = saved
	}
	return res
}

func create(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct{ Path, Content, Reason string }](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	if err := c.announce(ctx, in.Path); err != nil {
		return parley.ToolResult{}, err
	}
	ch := c.change(in.Path, in.Reason)
	ch.Body = in.Content
	made, err := c.lake.Create(ctx, ch)
	return c.done(ctx, made, err)
}

func update(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct {
		Path    string                     `json:"path"`
		Content *string                    `json:"content"`
		Old     *string                    `json:"old_string"`
		New     *string                    `json:"new_string"`
		All     bool                       `json:"replace_all"`
		Front   map[string]json.RawMessage `json:"front"`
		Version string                     `json:"version"`
		Reason  string                     `json:"reason"`
	}](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	parts := in.Old != nil || in.New != nil
	switch {
	case in.Content != nil && (parts || len(in.Front) > 0):
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "content is the whole text, so old_string, new_string and front cannot be given with it")
	case in.Content == nil && !parts && len(in.Front) == 0:
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "nothing says what to change").WithHint("give old_string and new_string, or front, or content with version")
	case parts && (in.Old == nil || in.New == nil || *in.Old == ""):
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "old_string and new_string belong together, and old_string is not empty").WithField("old_string")
	case parts && *in.Old == *in.New:
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "old_string and new_string are the same, so there is nothing to change").WithField("new_string")
	case in.Content != nil && in.Version == "":
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "the version that content is based on is missing").WithField("version").WithHint("read the entity first, or replace a part of it")
	}
	return c.edit(ctx, in.Path, in.Version, in.Reason, func(body string) (string, error) {
		if in.Content != nil {
			return *in.Content, nil
		}
		var err error
		if parts {
			if body, err = replace(body, *in.Old, *in.New, in.All); err != nil {
				return "", err
			}
		}
		if len(in.Front) > 0 {
			body, err = lake.SetFront(body, in.Front)
		}
		return body, err
	})
}

// edit makes a change of an entity from what it has now. Whoever changes the entity at the same time is merged with; where that does
// not fit, the change is made once more from what the entity has then.
func (c call) edit(ctx context.Context, path, version, reason string, f func(body string) (string, error)) (parley.ToolResult, error) {
	if made, ok, err := c.lake.Made(ctx, string(c.Call)); err != nil || ok {
		return c.done(ctx, made, err) // this call, at an earlier attempt
	}
	for tries := 0; ; tries++ {
		e, err := c.lake.Read(ctx, path)
		if err != nil {
			return parley.ToolResult{}, err
		}
		ch := c.change(e.Path, reason)
		if ch.Base = version; version == "" {
			ch.Base = e.Version
		}
		if ch.Body, err = f(e.Body); err != nil {
			return parley.ToolResult{}, err
		}
		if tries == 0 {
			if err := c.announce(ctx, e.Path); err != nil {
				return parley.ToolResult{}, err
			}
		}
		made, err := c.lake.Update(ctx, ch)
		if conflict, is := errors.AsType[*lake.Conflict](err); is && version == "" && conflict.Version != "" && tries < 5 {
			continue
		}
		return c.done(ctx, made, err)
	}
}

// replace replaces a text as Edit does.
func replace(body, old, now string, all bool) (string, error) {
	if strings.Contains(body, "\r\n") && !strings.Contains(old, "\r\n") {
		old, now = strings.ReplaceAll(old, "\n", "\r\n"), strings.ReplaceAll(now, "\n", "\r\n")
	}
	switch n := strings.Count(body, old); {
	case n == 0:
		return "", parley.Errorf(parley.CodeInvalid, "old_string is not in the entity. It must be there letter by letter, with all spaces and line breaks").WithField("old_string")
	case n > 1 && !all:
		return "", parley.Errorf(parley.CodeInvalid, "old_string is there %d times", n).WithField("old_string").WithHint("include lines around it until it is there once, or set replace_all")
	}
	return strings.ReplaceAll(body, old, now), nil
}

func move(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct{ Path, To, Reason string }](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	if err := c.announce(ctx, in.Path, in.To); err != nil {
		return parley.ToolResult{}, err
	}
	ch := c.change(in.Path, in.Reason)
	ch.To = in.To
	made, err := c.lake.Move(ctx, ch)
	return c.done(ctx, made, err)
}

func remove(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct{ Path, Version, Reason string }](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	if err := c.announce(ctx, in.Path); err != nil {
		return parley.ToolResult{}, err
	}
	ch := c.change(in.Path, in.Reason)
	ch.Base = in.Version
	made, err := c.lake.Delete(ctx, ch)
	return c.done(ctx, made, err)
}

func link(ctx context.Context, c call) (parley.ToolResult, error) {
	in, err := input[struct{ Path, To, Text, Heading, Reason string }](c)
	if err != nil {
		return parley.ToolResult{}, err
	}
	to, err := c.lake.Read(ctx, in.To)
	if err != nil {
		return parley.ToolResult{}, err
	}
	from, err := c.lake.Read(ctx, in.Path)
	if err != nil {
		return parley.ToolResult{}, err
	}
	if from.Path == to.Path {
		return parley.ToolResult{}, parley.Errorf(parley.CodeInvalid, "an entity is not linked to itself").WithField("to")
	}
	if made, ok, err := c.lake.Made(ctx, string(c.Call)); err != nil || ok {
		return c.done(ctx, made, err)
	}
	for _, l := range from.Links {
		if l.Path == to.Path {
			return parley.ToolResult{Output: fmt.Sprintf("%s links to %s already, in line %d; nothing was changed.", from.Path, to.Path, l.Line)}, nil
		}
	}
	written, err := c.lake.LinkTo(ctx, from.Path, to.Path, in.Text)
	if err != nil {
		return parley.ToolResult{}, err
	}
	heading := oneLine(in.Heading)
	if heading == "" {
		heading = "Related"
	}
	return c.edit(ctx, from.Path, "", in.Reason, func(body string) (string, error) {
		return lake.AddItem(body, heading, written), nil
	})
}
