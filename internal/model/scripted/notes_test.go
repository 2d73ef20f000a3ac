package scripted_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
	simlinkedin "github.com/parley-server/parley/internal/sim/linkedin"
	"github.com/parley-server/parley/internal/sim/website"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/tool/linkedin"
	"github.com/parley-server/parley/internal/tool/web"
	"github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/vault"
)

// notesDay is when the questions about notes are asked.
var notesDay = time.Date(2026, 3, 10, 15, 30, 0, 0, time.UTC)

// desk runs the agent of the app notes as the loop does, with the real tools over a vault of the
// demo, the simulated LinkedIn and the simulated web.
type desk struct {
	t       *testing.T
	model   *scripted.Model
	sets    []seam.Toolset
	decls   []parley.ToolDecl
	dir     string // of the person
	person  string
	site    string
	history []parley.Message
	calls   int
	called  []string // in the last question
}

func newDesk(t *testing.T, person string) *desk {
	t.Helper()
	raw, err := os.ReadFile("../../../apps/notes/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, person: person, dir: filepath.Join(t.TempDir(), "notes", person)}
	if d.model, err = scripted.New("scripted/notes", raw, scripted.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := notes.LayVault(t.Context(), filepath.Dir(d.dir), "", notesDay); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return notesDay }
	pages := httptest.NewServer(website.New())
	t.Cleanup(pages.Close)
	d.site = pages.URL
	fetch, err := web.New(web.Options{Allow: []string{strings.TrimPrefix(pages.URL, "http://")}, Search: web.SearchOptions{Provider: web.SearXNG, URL: pages.URL}, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fetch.Close)
	checks := checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil)})
	d.sets = []seam.Toolset{workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { return checks }, Now: clock}), fetch, d.loggedIn(clock)}
	for _, set := range d.sets {
		list, err := set.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range list {
			if !strings.HasPrefix(decl.Name, "mcp__") && decl.Name != "TodoWrite" && decl.Name != "NotebookEdit" {
				d.decls = append(d.decls, decl)
			}
		}
	}
	return d
}

var deskUser = parley.Principal{User: "local"}

func (d *desk) space() parley.Workspace { return parley.Workspace("shared/" + d.person) }

// loggedIn are the tools of LinkedIn, with a login of the person.
func (d *desk) loggedIn(clock func() time.Time) *linkedin.Toolset {
	d.t.Helper()
	const back = "http://127.0.0.1:8000" + linkedin.CallbackPath
	o := notes.Network(notesDay)
	o.ClientID, o.ClientSecret, o.Now, o.Settings.Consent, o.Settings.Member = "app", "app-secret", clock, "allow", d.person
	srv := httptest.NewServer(simlinkedin.New(o))
	d.t.Cleanup(srv.Close)
	v, err := vault.Open(mem.New(), []string{base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		d.t.Fatal(err)
	}
	set, err := linkedin.New(linkedin.Options{
		App: "notes", ClientID: "app", ClientSecret: "app-secret", RedirectURI: back, URL: srv.URL, Vault: func() *vault.Vault { return v }, Now: clock,
		Logger: slog.New(slog.DiscardHandler), Scopes: []string{"openid", "profile", "w_member_social", "r_member_social"},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(set.Close)
	link, err := set.Login(d.t.Context(), deskUser, d.space())
	if err != nil {
		d.t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(link)
	if err != nil {
		d.t.Fatal(err)
	}
	_ = resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := set.Finish(d.t.Context(), deskUser, linkedin.Answer{State: to.Query().Get("state"), Code: to.Query().Get("code")}, nil); err != nil {
		d.t.Fatal(err)
	}
	return set
}

// ask runs one turn within the app's budgets, and returns what was said last.
func (d *desk) ask(question string) string {
	d.t.Helper()
	d.called = nil
	about := "[about this turn]\nnow: " + notesDay.Format("Monday, 2006-01-02 15:04") + " (UTC)"
	msgs := append(append([]parley.Message{}, d.history...), parley.Message{Role: parley.RoleUser, Parts: []parley.Part{{Type: parley.PartText, Text: question}, {Type: parley.PartText, Text: about}}})
	system := "You can read and write files within the user's notes directory: " + d.dir + "\nWhen referencing files, use paths relative to this directory."
	for range 40 {
		rep, err := reply(d.t, d.model, seam.Request{Agent: "assistant", System: system, Messages: msgs, Tools: d.decls})
		if err != nil {
			d.t.Fatalf("%s: %v", question, err)
		}
		var results []parley.Part
		for i := range rep.Parts {
			p := &rep.Parts[i]
			if p.Type != parley.PartToolCall {
				continue
			}
			d.calls++
			p.Call = parley.CallID(fmt.Sprint("c", d.calls))
			d.called = append(d.called, p.Name+" "+string(p.Input))
			out, bad := d.run(p)
			results = append(results, parley.Part{Type: parley.PartToolResult, Call: p.Call, Name: p.Name, Text: out, IsError: bad})
		}
		if len(d.called) > 100 {
			d.t.Fatalf("%s: %d calls", question, len(d.called))
		}
		msgs = append(msgs, parley.Message{Role: parley.RoleAssistant, Parts: rep.Parts})
		if results == nil {
			answer := parley.PartsText(rep.Parts)
			d.history = append(d.history, parley.Text(parley.RoleUser, question), parley.Text(parley.RoleAssistant, answer))
			return answer
		}
		msgs = append(msgs, parley.Message{Role: parley.RoleTool, Parts: results})
	}
	d.t.Errorf("%s: the turn does not end: %v", question, d.called)
	return ""
}

func (d *desk) run(p *parley.Part) (out string, failed bool) {
	for _, set := range d.sets {
		list, _ := set.Tools(d.t.Context())
		if !slices.ContainsFunc(list, func(l parley.ToolDecl) bool { return l.Name == p.Name }) {
			continue
		}
		res, err := set.Run(d.t.Context(), seam.Run{
			Call: p.Call, Name: p.Name, Input: p.Input, Session: "s", Turn: "t", Principal: deskUser, App: "notes", Space: d.space(), Started: notesDay,
			Workspace: func() (*os.Root, error) { return os.OpenRoot(d.dir) }, Changes: func(context.Context, ...string) error { return nil },
			Keep: func(seam.File) error { return nil }, Progress: func(string) {},
		})
		switch {
		case err != nil:
			return "Failed: " + err.Error(), true
		case res.Outcome == parley.OutcomeError:
			return "Failed: " + res.Output, true
		}
		return res.Output, false
	}
	return "Failed: there is no tool " + p.Name, true
}

// knownAtDesk are questions that the model answers wrongly, with the reason.
var knownAtDesk = map[string]string{}

// TestNotesQuestions: the facts of the sheets were written before the rules.
func TestNotesQuestions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"notes-first-forty", "notes-second"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "questions", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var sh []struct {
			Person        string
			Conversations [][]struct {
				Ask         string
				Want, Avoid []string
				Files       map[string][]string
			}
		}
		if err := yaml.Load(raw, &sh); err != nil {
			t.Fatal(err)
		}
		for _, part := range sh {
			for i, conversation := range part.Conversations {
				t.Run(fmt.Sprintf("%s/%s/%d", name, part.Person, i), func(t *testing.T) {
					t.Parallel()
					d := newDesk(t, part.Person)
					for _, q := range conversation {
						ask := strings.ReplaceAll(q.Ask, "SITE", d.site)
						var want []string
						for _, w := range q.Want {
							want = append(want, strings.ReplaceAll(w, "SITE", d.site))
						}
						answer := d.ask(ask)
						why := accepted(t, answer, want, q.Avoid)
						for file, texts := range q.Files {
							body, err := os.ReadFile(filepath.Join(d.dir, filepath.FromSlash(file)))
							for _, text := range texts {
								gone, is := strings.CutPrefix(text, "-")
								if is && !strings.HasPrefix(text, "- ") {
									if strings.Contains(string(body), gone) {
										why = fmt.Sprintf("%s has %q", file, gone)
									}
								} else if !strings.Contains(string(body), text) {
									why = fmt.Sprintf("%s (%v) lacks %q", file, err, text)
								}
							}
						}
						switch reason, is := knownAtDesk[q.Ask]; {
						case why != "" && !is:
							t.Errorf("%s: %s: %s\n%s\ncalls: %s", part.Person, q.Ask, why, answer, strings.Join(d.called, "\n       "))
						case why == "" && is:
							t.Errorf("%s: is right now; it was known to fail: %s", q.Ask, reason)
						}
						if os.Getenv("TALK") != "" {
							t.Logf("> %s\n%s\n", q.Ask, answer)
						}
					}
				})
			}
		}
	}
}
