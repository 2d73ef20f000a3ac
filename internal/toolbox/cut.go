package toolbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Cut returns the part of a result that fits the log, for a result that did not come from a
// tool of the box. An output that is too large becomes an artifact.
func (b *Box) Cut(d parley.ToolDecl, r seam.Run, res parley.ToolResult) Result {
	if !json.Valid(res.Data) {
		res.Data = nil
	}
	res.About = aboutFew(res.About)
	if res.Error != nil {
		e := *res.Error
		e.Message = clip(e.Message, b.o.OutputLimit/2)
		res.Error = &e
	}
	return b.cut(&tool{decl: d}, r, res)
}

// Reported does the same for a result that a client reported, after the checks that a toolset's
// result gets.
func (b *Box) Reported(name string, r seam.Run, res parley.ToolResult) Result {
	t := b.tools[name]
	if t == nil { // the tool is gone, but the client made the call
		t = &tool{decl: parley.ToolDecl{Name: name, Effect: r.Effect}}
	}
	return b.answered(t, r, res)
}

// cut moves an output that is too large for the log into the artifact, and leaves its
// beginning with a line that says so. This includes structured data: the log never holds
// half of it.
func (b *Box) cut(t *tool, r seam.Run, res parley.ToolResult) Result {
	limit := t.decl.OutputLimit
	if limit <= 0 {
		limit = b.o.OutputLimit
	}
	bigData := len(res.Data) > limit
	if len(res.Output) > limit {
		res.Output = b.redacted(r, res.Output)
	}
	out := Result{ToolResult: res}
	if len(res.Output) <= limit && !bigData {
		out.Output = strings.ToValidUTF8(res.Output, "\uFFFD")
		return out
	}

	var whole []byte
	ext := ".txt"
	out.MediaType = "text/plain; charset=utf-8"
	switch {
	case bigData && len(res.Output) > limit && res.Output != string(res.Data):
		whole, _ = json.Marshal(map[string]any{"output": res.Output, "data": res.Data})
		ext = ".json"
	case bigData:
		whole, ext = res.Data, ".json"
	default:
		whole = []byte(res.Output)
		if json.Valid(whole) {
			ext = ".json"
		}
	}
	if bigData {
		out.Data = nil
	}
	if ext == ".json" {
		out.MediaType = "application/json"
	}
	out.ArtifactName = t.decl.Name + "-" + string(res.Call) + ext
	total := len(whole)
	if total > b.o.MaxArtifact {
		whole = []byte(b.redacted(r, string(whole)))
		whole = whole[:min(len(whole), b.o.MaxArtifact)]
		whole = []byte(strings.ToValidUTF8(string(whole), "") +
			fmt.Sprintf("\n[cut here: the output had %d bytes, an artifact holds %d]\n", total, b.o.MaxArtifact))
		if ext == ".json" { // a part of it is JSON no more
			out.MediaType = "text/plain; charset=utf-8"
			out.ArtifactName = strings.TrimSuffix(out.ArtifactName, ext) + ".txt"
		}
	}
	out.Artifact = whole
	out.Output = preview(res.Output, limit, func(rest int) string {
		if rest == 0 { // only the data was too large
			return fmt.Sprintf("[the data, %d bytes, is in the artifact %s]", total, out.ArtifactName)
		}
		return fmt.Sprintf("[%d of %d bytes are left out here; the whole is in the artifact %s]", rest, len(res.Output), out.ArtifactName)
	})
	return out
}

// preview returns the beginning of s and a note, limit bytes at most together.
// It ends at a line when that keeps at least half of what there is room for,
// else between two runes.
func preview(s string, limit int, note func(rest int) string) string {
	room := limit - len(note(len(s))) - 1
	if room < 0 {
		room = 0 // the note is worth more than the beginning of the text
	}
	if len(s) <= room {
		return strings.TrimSuffix(strings.ToValidUTF8(s, "\uFFFD"), "\n") + "\n" + note(0)
	}
	end := room
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if nl := strings.LastIndexByte(s[:end], '\n'); nl >= room/2 && nl > 0 {
		end = nl
	}
	// Bytes that are no UTF-8 become U+FFFD, which is longer: cut once more.
	head := strings.ToValidUTF8(s[:end], "\uFFFD")
	for len(head) > room {
		_, n := utf8.DecodeLastRuneInString(head)
		head = head[:len(head)-n]
	}
	if head == "" {
		return note(len(s))
	}
	return head + "\n" + note(len(s)-end)
}

func firstLine(s, otherwise string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if line == "" {
		return otherwise
	}
	return line
}
