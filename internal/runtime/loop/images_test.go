package loop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
)

// images writes what a request has of images, and of results.
func images(ms []parley.Message) string {
	var b strings.Builder
	for _, m := range ms {
		for _, p := range m.Parts {
			switch {
			case p.Type == parley.PartImage:
				fmt.Fprintf(&b, "%s sees %s of %q\n", m.Role, p.Artifact, p.Call)
			case p.Type == parley.PartToolResult:
				fmt.Fprintf(&b, "<- %s %s\n", p.Call, p.Text)
			case strings.Contains(p.Text, "[attached") || strings.Contains(p.Text, "[handed"):
				b.WriteString(p.Text + "\n")
			}
		}
	}
	return b.String()
}

// drawn is the end of a call that returned images of a size each.
func drawn(call string, size int64, ids ...string) parley.ToolEnded {
	e := ended(call, "drawn")
	for _, id := range ids {
		e.Images = append(e.Images, parley.ArtifactRef{ID: parley.ArtifactID(id), Name: id + ".png", MediaType: "image/png", Size: size})
	}
	return e
}

func seeing(sees map[string]bool, change ...func(*parley.App)) given {
	g := testGiven(change...)
	g.model = func(name string) (seam.ModelInfo, error) {
		m := testModel
		m.Name, m.Images = name, sees[name]
		return m, nil
	}
	return g
}

// TestImagesOfResults: a model that sees gets the images of results, another one words.
func TestImagesOfResults(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}
	withImage := asked(parley.Budgets{})
	withImage.Message.Parts = append(withImage.Message.Parts, parley.Part{Type: parley.PartImage, Artifact: "mine", MediaType: "image/png", Name: "mine.png"})
	looked := join(withImage, front, says("front", "c", tool("a", "look", "{}"), tool("b", "look", `{"p":1}`)), drawn("a", 9, "x", "y"), ended("b", "B"))
	for name, c := range map[string]struct {
		sees   bool
		model  string // of finder
		events []any
		want   string
	}{
		"seen": {true, "m", looked, `user sees mine of ""` + "\n<- a drawn\n" + `tool sees x of "a"` + "\n" + `tool sees y of "a"` + "\n<- b B\n"},
		// The model refuses the image of the message, which the user has sent to it.
		"in words": {false, "m", looked, `user sees mine of ""` + "\n<- a drawn\n[the image x.png, which you cannot see]\n[the image y.png, which you cannot see]\n<- b B\n"},
		"done again": {
			true, "m", join(asked(parley.Budgets{}), front, says("front", "c", tool("w", "add", "{}")),
				parley.ToolStarted{Call: "w", Name: "add", Input: []byte("{}"), Effect: parley.EffectWrite},
				parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown, Output: "timed out"}},
				parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindUnknown, Call: "w"}},
				parley.InteractionAnswered{ID: "i", Answer: parley.Answer{Choice: parley.ChoiceAgain}},
				by("", parley.ToolRequested{Call: "w2", Name: "add", Input: []byte("{}"), Redo: "w"}), drawn("w2", 9, "x")),
			"<- w drawn\n" + `tool sees x of "w"` + "\n",
		},
		"replaced by a hook": {
			true, "m", join(asked(parley.Budgets{}), front, says("front", "c", tool("a", "look", "{}")),
				parley.ToolEnded{ToolResult: drawn("a", 9, "x").ToolResult, HookDue: true}, parley.HookRan{Event: "PostToolUse", Call: "a", From: "app", Output: new("secret")}),
			"<- a secret\n",
		},
		"handed over to one that sees": {
			true, "m", join(looked, says("front", "d", hand("h", "finder", "look")), by("front", parley.AgentHandoff{From: "front", To: "finder", Name: "finder", Why: "look", Call: "h"})),
			`user sees mine of ""` + "\n[handed over by front]\nreason: look\n[result of look {}]\ndrawn\n[result of look {\"p\":1}]\nB\n" + `user sees x of ""` + "\n" + `user sees y of ""` + "\n",
		},
		"handed over to one that does not": {
			true, "blind", join(looked, says("front", "d", hand("h", "finder", "look")), by("front", parley.AgentHandoff{From: "front", To: "finder", Name: "finder", Why: "look", Call: "h"})),
			"[attached: mine.png, which you cannot see]\n[handed over by front]\nreason: look\n[result of look {}]\ndrawn\n[result of look {\"p\":1}]\nB\n[attached: x.png, which you cannot see]\n[attached: y.png, which you cannot see]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := seeing(map[string]bool{"m": c.sees}, func(a *parley.App) {
				def := a.Agents["finder"]
				def.Model = c.model
				a.Agents["finder"] = def
			})
			req := request(t, g, fold(t, c.events...)).Request
			if diff := cmp.Diff(c.want, images(req.Messages)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := request(t, g, fold(t, c.events...)).Request
			if digest(req) != digest(again) {
				t.Error("the same state makes another request")
			}
		})
	}
}

// TestTooManyImages: the oldest images leave a prompt together, so that its beginning stays for a
// while, and the newest are always there.
func TestTooManyImages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size  int64
		model seam.ModelInfo
		most  int
	}{
		"by number":               {1000, seam.ModelInfo{}, maxShown},
		"by the model's number":   {1000, seam.ModelInfo{MaxImages: 8}, 8},
		"by a number of one":      {1000, seam.ModelInfo{MaxImages: 1}, 1},
		"by size":                 {3 << 19, seam.ModelInfo{}, 8},
		"by a size nobody knows":  {0, seam.ModelInfo{}, 12},
		"larger than all that is": {maxShownBytes + 1, seam.ModelInfo{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := c.model
			m.Images = true
			ms := []parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{text("look"), {Type: parley.PartImage, Artifact: "u", Name: "u.png", Size: c.size}}}}
			before, changes, least := "", 0, c.most
			for i := range 100 {
				call := fmt.Sprint("c", i)
				ms = append(ms,
					parley.Message{Role: parley.RoleAssistant, Parts: []parley.Part{tool(call, "look", "{}")}},
					parley.Message{Role: parley.RoleTool, Parts: []parley.Part{
						{Type: parley.PartToolResult, Call: parley.CallID(call), Text: "drawn"},
						{Type: parley.PartImage, Call: parley.CallID(call), Artifact: parley.ArtifactID(call), Name: call + ".png", Size: c.size},
					}})
				whole := show(ms)
				out := shown(ms, m, true)
				if show(ms) != whole {
					t.Fatal("the messages were changed")
				}
				if err := runtimetest.Validate(out); err != nil {
					t.Fatal(err)
				}
				n := 0
				each(out, func(parley.Part) { n++ })
				if n > c.most || i+2 <= c.most && n != i+2 {
					t.Errorf("after %d images there are %d", i+2, n)
				}
				if i+2 > c.most {
					least = min(least, n)
				}
				if last := out[len(out)-1].Parts; last[len(last)-1].Type != parley.PartImage {
					t.Error("the newest image is not there")
				}
				now := images(out)
				if !strings.HasPrefix(now, before) {
					changes++
				}
				before = now
				if again := images(shown(out, m, true)); again != now {
					t.Errorf("done twice it is\n%s\nnot\n%s", again, now)
				}
			}
			if want := 100/max(c.most-c.most/2, 1) + 2; changes > want || changes == 0 || least < max(1, c.most/2) {
				t.Errorf("the prompt's beginning changed %d times, want at most %d; there were at least %d images", changes, want, least)
			}
			if !strings.Contains(before, "[attached: u.png, which is not shown any more") || !strings.Contains(before, "<- c0 drawn\n[the image c0.png, which is not shown any more") {
				t.Errorf("got\n%s", before)
			}
		})
	}
}
