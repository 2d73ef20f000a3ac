package engine

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/toolbox"
)

// maxTitled is how many things a title names where its tool has no words for the
// call; the detail names all.
const maxTitled = 3

// maxDetail bounds a detail, in characters: it is part of the session.
const maxDetail = 4 << 10

// permissionTitle is what a person is asked about a call: in the words of its tool, with
// the ids beside it. Of a tool that has none the title has the ids.
func permissionTitle(box *toolbox.Box, d parley.ToolDecl, input []byte, reaches []string) (title, detail string) {
	if words := box.Words(d.Name, input); words != "" {
		return parley.Cut(words, parley.MaxTitle) + "?", called(d, input, reaches)
	}
	asked := "Allow " + d.Name
	if subject := subjectOf(d, input); subject != "" {
		asked += ": " + subject
	}
	if len(reaches) > maxTitled {
		detail = called(d, input, reaches)
	}
	return asked + on(subjectOf(d, input), reaches, maxTitled) + "?", detail
}

// maxPreview bounds a preview, in characters: it is part of the session.
const maxPreview = 8 << 10

// shown is what a person sees about a call besides its title: why it is asked, and what the call
// would send out.
func (h *host) shown(tool string, input []byte, reason string) string {
	text := h.r.box.Preview(tool, input, h.r.tools.Space()) // its lines stay as they are
	if runes := []rune(text); len(runes) > maxPreview {
		text = string(runes[:maxPreview]) + "…"
	}
	if reason == "" || text == "" {
		return reason + text
	}
	return reason + "\n\n" + text
}

// wordUnknown puts the question what became of a call into the words of its tool, or names its
// subject.
func (h *host) wordUnknown(s *session, in *parley.Interaction) {
	box := h.r.box
	d, there := box.Decl(in.Tool)
	input := s.inside(d, in.Input)
	words := box.Words(in.Tool, input)
	if !there {
		return
	}
	if words == "" {
		if subject := subjectOf(d, input); subject != "" {
			in.Title = "Did " + in.Tool + " take effect: " + subject + "?"
		}
		return
	}
	first, size := utf8.DecodeRuneInString(words)
	in.Title = "Did this take effect: " + parley.Cut(string(unicode.ToLower(first))+words[size:], parley.MaxTitle) + "?"
	what, _ := box.Reaches(in.Tool, input)
	in.Detail = called(d, input, what)
}

// called is a call in ids: its subject, and all that it acts on.
func called(d parley.ToolDecl, input []byte, reaches []string) string {
	text := subjectOf(d, input)
	if text == "" {
		text = d.Name
	}
	return parley.Cut(text+on(text, reaches, len(reaches)), maxDetail)
}

func subjectOf(d parley.ToolDecl, input []byte) string {
	if d.Subject == "" {
		return "" // it would be the whole input, which is shown as it is
	}
	return parley.Cut(d.SubjectOf(input), 80)
}

// on names the first most things that a call acts on, unless its subject says it.
func on(subject string, reaches []string, most int) string {
	if len(reaches) == 0 || subject != "" && strings.HasPrefix(reaches[0], subject) {
		return ""
	}
	text := ""
	for i, what := range reaches[:min(len(reaches), most)] {
		text += []string{" on ", ", "}[min(i, 1)] + parley.Cut(what, 80)
	}
	if more := len(reaches) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
