package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
)

func TestAModelThatIsSilent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		at      int           // the number of fragments before it hangs; 0: it hangs before the first
		own     time.Duration // time that the model itself allows for its start
		partial string
		took    time.Duration // four times the patience, plus pauses of at most 0.5, 1 and 2 s
	}{
		"from the beginning":                      {0, 0, "", 4 * time.Minute},
		"from the beginning, of one that loads":   {0, 5 * time.Minute, "", 20 * time.Minute},
		"in the middle":                           {2, 0, "It is Goog", 4 * time.Minute},
		"in the middle, of one that had to begin": {2, 5 * time.Minute, "It is Goog", 4 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				b.model.Between = func(ctx context.Context, n int) {
					if n == tt.at {
						<-ctx.Done()
					}
				}
				log := b.run(t, t.Context(), say("It is Google."), func(m *seam.Models, _ *seam.Host) {
					b.model.ModelInfo.FirstTokenMS = tt.own.Milliseconds()
					if tt.at == 0 {
						*m = hanging{&b.model}
					}
				})
				lost := payload[parley.ModelFailed](t, log)
				if len(lost) != 4 || lost[0].Partial != tt.partial || lost[0].Error.Code != parley.CodeUnavailable || !lost[2].Retry || lost[3].Retry {
					t.Errorf("got %+v, want four attempts", lost)
				}
				if got := payload[parley.TurnFailed](t, log); len(got) != 1 || got[0].Error.Code != parley.CodeUnavailable || said(got[0].Response) != tt.partial {
					t.Errorf("got %+v, want the turn to fail as unavailable", got)
				}
				if took := time.Since(b.began); took < tt.took || took > tt.took+4*time.Second {
					t.Errorf("got %s, want a little more than %s", took, tt.took)
				}
			})
		})
	}
}

// hanging is a model that never answers.
type hanging struct{ *runtimetest.Func }

func TestASlowModelIsNotASilentOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		b.model.Between = func(context.Context, int) { <-time.After(50 * time.Second) }
		log := b.run(t, t.Context(), say("It is Google."))
		if got, want := types(log), "turn.started agent.started model.started model.replied turn.completed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if r := payload[parley.ModelReplied](t, log)[0]; r.TookMS != 150_000 {
			t.Errorf("got %d ms, want three pauses", r.TookMS)
		}
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	broken := parley.Errorf(parley.CodeModel, "the provider refused the request")
	tests := map[string]struct {
		err      *parley.Error
		attempts int
		least    time.Duration
		code     parley.Code
		charged  bool
	}{
		"a busy model is tried four times":                  {parley.Errorf(parley.CodeRateLimited, "busy"), 4, time.Second, parley.CodeRateLimited, false},
		"it is given the time that it asks for":             {parley.Errorf(parley.CodeRateLimited, "busy").WithRetry(20 * time.Second), 4, time.Minute, parley.CodeRateLimited, false},
		"but not any time":                                  {parley.Errorf(parley.CodeRateLimited, "busy").WithRetry(time.Hour), 1, 0, parley.CodeRateLimited, false},
		"what is wrong stays wrong":                         {broken, 1, 0, parley.CodeModel, true},
		"a call that may have been done counts as reserved": {parley.Errorf(parley.CodeUnavailable, "connection lost"), 4, time.Second, parley.CodeUnavailable, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) { return seam.Reply{}, tt.err })
				lost := payload[parley.ModelFailed](t, log)
				if len(lost) != tt.attempts {
					t.Errorf("got %d attempts, want %d", len(lost), tt.attempts)
				}
				if got := lost[0].Usage.Tokens() > 0; got != tt.charged {
					t.Errorf("got usage %+v, want charged %v", lost[0].Usage, tt.charged)
				}
				if got := payload[parley.TurnFailed](t, log)[0].Error.Code; got != tt.code {
					t.Errorf("got code %s, want %s", got, tt.code)
				}
				if took := time.Since(b.began); took < tt.least || took > tt.least+5*time.Second {
					t.Errorf("got %s, want a little more than %s", took, tt.least)
				}
			})
		})
	}
}

func TestAnErrorNobodyExplainedSaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			return seam.Reply{}, errors.New("Post https://example.test/?key=secret: EOF")
		})
		want := parley.ErrorInfo{Code: parley.CodeModel, Message: "the model call failed", Hint: "try again, or choose another model"}
		if diff := cmp.Diff(want, payload[parley.TurnFailed](t, log)[0].Error); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	})
}

func TestAnAnswerThatIsCutOffForLengthIsAnError(t *testing.T) {
	t.Parallel()
	short := func(seam.Request) (seam.Reply, error) {
		r := runtimetest.Say("It is Goo")
		r.StopReason = "max_tokens"
		return r, nil
	}
	for _, tt := range []struct {
		name    string
		budgets parley.Budgets
		code    parley.Code
		types   string
	}{
		{"by the agent's cap", parley.Budgets{}, parley.CodeModel, "turn.started agent.started model.started model.failed turn.failed"},
		{
			"by what the budget left",
			parley.Budgets{MaxTotalTokens: 500},
			"budget_tokens",
			"turn.started agent.started model.started budget.reached model.failed turn.failed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := bench{budgets: tt.budgets}
				log := b.run(t, t.Context(), short)
				end := payload[parley.TurnFailed](t, log)[0]
				if types(log) != tt.types || end.Error.Code != tt.code || said(end.Response) != "It is Goo" || end.Usage.InputTokens != 10 {
					t.Errorf("got %s, %+v, want %s, code %s and the text", types(log), end, tt.types, tt.code)
				}
			})
		})
	}
}

// TestARefusalIsSaidAsSuch: a refusal is not an answer, whether it is empty or partial. Its calls are
// not made, and the request is not repeated.
func TestARefusalIsSaidAsSuch(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][]parley.Part{
		"empty":  nil,
		"half":   {{Type: parley.PartText, Text: "The recipe"}},
		"a call": {{Type: parley.PartToolCall, Name: "look", Input: []byte("{}")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b bench
				log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
					return seam.Reply{Parts: parts, StopReason: "refusal", Usage: parley.Usage{InputTokens: 10, OutputTokens: 5}}, nil
				})
				end := payload[parley.TurnFailed](t, log)[0]
				if got, want := types(log), "turn.started agent.started model.started model.failed turn.failed"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if end.Error.Code != parley.CodeModel || !strings.Contains(end.Error.Message, "refused to answer") || end.Usage.InputTokens != 10 || said(end.Response) != parley.PartsText(parts) {
					t.Errorf("got %+v, want the refusal, what it cost and the text", end)
				}
			})
		})
	}
}

func TestRepliesAreMadeFitForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(r seam.Request) (seam.Reply, error) {
			if len(runtimetest.Results(r)) > 0 {
				return runtimetest.Say("Done."), nil
			}
			bad := runtimetest.Tool("look", `{"q": `)
			bad.Signature = []byte("not json")
			reply := runtimetest.Use("caf\xe9", bad, runtimetest.Tool("look", ""), parley.Part{Type: parley.PartToolResult, Text: "forged"})
			reply.State = []byte("{")
			return reply, nil
		})
		got := payload[parley.ModelReplied](t, log)[0]
		want := []parley.Part{
			{Type: parley.PartText, Text: "caf\ufffd"},
			{Type: parley.PartToolCall, Call: got.Parts[1].Call, Name: "look", Input: []byte(`"{\"q\": "`)},
			{Type: parley.PartToolCall, Call: got.Parts[2].Call, Name: "look", Input: []byte(`{}`)},
		}
		if diff := cmp.Diff(want, got.Parts); diff != "" || got.State != nil || got.Parts[1].Call == got.Parts[2].Call {
			t.Errorf("parts (-want +got):\n%s, state %s", diff, got.State)
		}
		if got.Usage.USD != 20e-6 {
			t.Errorf("got $%g, want it by the list", got.Usage.USD)
		}
	})
}

// several has models by name.
type several map[string]*runtimetest.Func

// TestFallback: a model that does not answer is not used for the rest of the turn. The next model
// repeats the partial text from its beginning; it is not joined to it.
func TestFallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		calls := map[string]int{}
		named := func(name string, script runtimetest.Script) *runtimetest.Func {
			return &runtimetest.Func{
				ModelInfo: seam.ModelInfo{Name: name, ContextTokens: 20_000, MaxOutputTokens: 1000},
				Script: func(r seam.Request) (seam.Reply, error) {
					calls[name]++
					return script(r)
				},
			}
		}
		models := several{
			"busy": named("busy", func(seam.Request) (seam.Reply, error) {
				return seam.Reply{}, parley.Errorf(parley.CodeRateLimited, "busy is asked too much")
			}),
			"locked": named("locked", func(seam.Request) (seam.Reply, error) {
				return seam.Reply{}, parley.Errorf(parley.CodeUnauthenticated, "locked does not accept the key")
			}),
			"spare": named("spare", func(r seam.Request) (seam.Reply, error) {
				if len(runtimetest.Results(r)) == 0 {
					return runtimetest.Use("", runtimetest.Tool("look", "{}")), nil
				}
				return runtimetest.Say("It is Google."), nil
			}),
		}
		log := b.run(t, t.Context(), nil, func(m *seam.Models, h *seam.Host) {
			*m = models
			app := *b.host.App()
			app.Model, app.Fallbacks = "busy", []string{"absent", "locked", "spare"}
			*h = otherApp{*h, &app}
		})
		if diff := cmp.Diff(map[string]int{"busy": 2, "locked": 1, "spare": 2}, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		var next []string
		for _, f := range payload[parley.ModelFailed](t, log) {
			next = append(next, f.Fallback)
		}
		if diff := cmp.Diff([]string{"", "locked", "spare"}, next); diff != "" {
			t.Errorf("fallbacks (-want +got):\n%s", diff)
		}
		if got := payload[parley.TurnCompleted](t, log)[0].Response.Message; got != "It is Google." {
			t.Errorf("got %q", got)
		}
	})
}

// otherApp is a host with a changed app.
type otherApp struct {
	seam.Host
	app *parley.App
}

func (h otherApp) App() *parley.App { return h.app }

// TestMalformedIsMalformedEverywhere: a request that one model rejects as malformed is not sent to the
// next model.
func TestMalformedIsMalformedEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			return seam.Reply{}, parley.Errorf(parley.CodeInvalid, "messages.3 is wrong")
		}, func(_ *seam.Models, h *seam.Host) {
			app := *b.host.App()
			app.Fallbacks = []string{"n"}
			*h = otherApp{*h, &app}
		})
		if got := len(payload[parley.ModelFailed](t, log)); got != 1 {
			t.Errorf("got %d calls, want 1", got)
		}
	})
}

// counting is a model whose provider counts tokens.
type counting struct {
	*runtimetest.Func
	n     int64
	asked int
}

func (m *counting) CountTokens(context.Context, seam.Request) (int64, error) {
	m.asked++
	return m.n, nil
}

// TestCount: if a request may not fit, its provider counts the tokens, and this number is reserved. A
// request that surely fits is not counted. The size of a document is unknown until it is counted.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window, n int64
		asked     int
		code      parley.Code
		files     []parley.Part
	}{
		"small":           {20_000, 1, 0, "", nil},
		"fits after all":  {2000, 200, 1, "", nil},
		"does not fit":    {2000, 1900, 1, parley.CodeTooLarge, nil},
		"cannot be known": {2000, 0, 1, "", nil},
		"a long document": {20_000, 15_000, 1, "", []parley.Part{{Type: parley.PartFile, Artifact: "A", MediaType: "application/pdf", Name: "a.pdf"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := bench{files: c.files}
				var m counting
				log := b.run(t, t.Context(), say("It is Google."), func(ms *seam.Models, h *seam.Host) {
					b.model.ModelInfo.ContextTokens, b.model.ModelInfo.Files = c.window, true
					m = counting{Func: &b.model, n: c.n}
					*ms = &m
					app := *b.host.App()
					lead := app.Agents["front"]
					lead.Prompt, lead.MaxOutput = strings.Repeat("Be useful. ", 436), 256
					app.Agents = map[string]parley.AgentDef{"front": lead}
					if c.asked == 0 {
						lead.Prompt = "Be useful."
						app.Agents["front"] = lead
					}
					*h = otherApp{*h, &app}
				})
				if m.asked != c.asked {
					t.Errorf("asked %d times, want %d", m.asked, c.asked)
				}
				started := payload[parley.ModelStarted](t, log)
				if c.code != "" {
					failed := payload[parley.TurnFailed](t, log)
					if len(started) != 0 || len(failed) != 1 || failed[0].Error.Code != c.code {
						t.Errorf("got %v %+v", types(log), failed)
					}
					return
				}
				if len(started) != 1 || c.n > 1 && started[0].Reserved.InputTokens != c.n {
					t.Errorf("got %+v, want %d tokens reserved", started, c.n)
				}
			})
		})
	}
}

// TestTokenBytes: a model with shorter tokens gets less history.
func TestTokenBytes(t *testing.T) {
	t.Parallel()
	reserved := func(bytes float64) int64 {
		var n int64
		synctest.Test(t, func(t *testing.T) {
			var b bench
			log := b.run(t, t.Context(), say("It is Google."), func(*seam.Models, *seam.Host) { b.model.ModelInfo.TokenBytes = bytes })
			n = payload[parley.ModelStarted](t, log)[0].Reserved.InputTokens
		})
		return n
	}
	if three, six, none := reserved(3), reserved(6), reserved(0); three != none || six >= three || six < three/2 {
		t.Errorf("got %d tokens at 3 bytes, %d at 6, %d at none", three, six, none)
	}
}

// TestWarning: a warning about a reply is in the log. The error for a prompt that does not fit has the
// hint for a larger context on its server.
func TestWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), func(seam.Request) (seam.Reply, error) {
			r := runtimetest.Say("It is Google.")
			r.Warning = "it may have cut off the beginning"
			return r, nil
		})
		if got := payload[parley.ModelReplied](t, log); len(got) != 1 || got[0].Warning != "it may have cut off the beginning" {
			t.Errorf("got %+v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var b bench
		log := b.run(t, t.Context(), say("It is Google."), func(*seam.Models, *seam.Host) {
			b.model.ModelInfo.ContextTokens, b.model.ModelInfo.ContextHint = 20, "set MORE=1"
		})
		if got := payload[parley.TurnFailed](t, log); len(got) != 1 || !strings.HasSuffix(got[0].Error.Hint, "; set MORE=1") {
			t.Errorf("got %+v", got)
		}
	})
}
