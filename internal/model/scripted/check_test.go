package scripted_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/model/scripted"
)

func TestCheck_names_every_mistake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"nothing wrong": {"agents: {lead: [{say: hello}]}\n", nil},
		"no YAML":       {"agents: {lead: [\n", []string{"2"}},
		"fields that there are not": {`agents:
  lead:
    - when: .Resluts
      say: hello
    - say: "{{range .Results}}{{.Output}}{{.Of}}{{$.Qestion}}{{end}}"
    - {when: .Handed, handoff: {to: other, why: "{{.Handed.Wy}}"}}
    - say: "{{with .Handed}}{{.From}}{{end}}{{(index .Results 0).Output}}{{.Question}}"
`, []string{"3", "5", "6"}},
		"all of it": {`ignoer: [a]
asks:
  when: "("
templates:
  short: "{{ nothing }}"
topics:
  - name: a
  - also: [b]
agents:
  lead:
    - when: "{{"
      say: hello
    -
    - call: [{input: {a: b}}]
    - {}
  other:
    - say: "{{ .Question"
      sya: x
`, []string{"1", "3", "5", "8", "11", "13", "14", "15", "17", "18"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			got := scripted.Check([]byte(c.script))
			for _, m := range got {
				line := strconv.Itoa(m.Line)
				lines = append(lines, line)
			}
			if diff := cmp.Diff(c.want, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s\n%v", diff, got)
			}
		})
	}
}

// TestCheck_suggests_the_key: a key that does not exist is reported as in the other files of an app.
func TestCheck_suggests_the_key(t *testing.T) {
	t.Parallel()
	got := scripted.Check([]byte("agents:\n  lead:\n    - wenn: .Results\n      say: hello\n    - call: [{tool: a, inptu: {}}]\nignoer: [a]\n"))
	want := []scripted.Mistake{
		{Line: 3, Text: "wenn: unknown key; did you mean when?"},
		{Line: 5, Text: "inptu: unknown key; did you mean input?"},
		{Line: 6, Text: "ignoer: unknown key; did you mean ignore?"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
