//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// desk answers questions as a person would, or reports that there is no answer yet.
type desk struct {
	mu    sync.Mutex
	asked []parley.Interaction
	says  func(in parley.Interaction) (parley.Answer, error)
}

func (d *desk) ask(_ context.Context, in parley.Interaction) (parley.Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, in)
	return d.says(in)
}

// asking is a toolset over a server whose tools ask p. wrap chooses the era.
func asking(t *testing.T, wrap func(http.Handler) http.Handler, p *sdk.ElicitParams) *toolbox.Box {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for name, reads := range map[string]bool{"look": true, "write": false} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: reads}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				if res, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
					raw, _ := json.Marshal(res.Content)
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: res.Action + " " + string(raw)}}}, nil
				}
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": p}}, nil
			})
	}
	return asked(t, wrap(handler(s)))
}

func asked(t *testing.T, h http.Handler, change ...func(*mcp.Options)) *toolbox.Box {
	t.Helper()
	at := httptest.NewServer(h)
	t.Cleanup(at.Close)
	o := mcp.Options{Name: "test", URL: at.URL, Logger: quiet}
	for _, c := range change {
		c(&o)
	}
	set, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	box, err := toolbox.New([]seam.Toolset{set}, toolbox.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func run(t *testing.T, box *toolbox.Box, d *desk, tool string, call int) toolbox.Result {
	return box.Run(t.Context(), seam.Run{
		Call: parley.CallID(fmt.Sprint("c", call)), Name: "mcp__test__" + tool, Input: json.RawMessage(`{}`), Principal: parley.Principal{User: "ana"}, Ask: d.ask,
	}, time.Now().Add(within))
}

func same(h http.Handler) http.Handler { return h }

var eras = map[string]func(http.Handler) http.Handler{"newer": same, "older": older}

// TestElicit: in both eras a server asks a person by a form. The answer has the types of the form's
// fields. Secrets are asked for separately, and a wrong value is asked for again.
func TestElicit(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["age","name","pin","sizes"],"properties":{
	  "name":{"type":"string","title":"Your name","description":"as in the passport"},
	  "age":{"type":"integer","minimum":1},
	  "ok":{"type":"boolean","default":true},
	  "color":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]},
	  "sizes":{"type":"array","items":{"anyOf":[{"const":"s","title":"Small, thin"},{"const":"l","title":"Large"}]}},
	  "mail":{"type":"string","format":"email"},
	  "pin":{"type":"string","writeOnly":true}}}`
	for era, wrap := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			box := asking(t, wrap, &sdk.ElicitParams{Mode: "form", Message: "Who are\nyou?", RequestedSchema: json.RawMessage(schema)})
			tries := 0
			d := &desk{says: func(in parley.Interaction) (parley.Answer, error) {
				if in.Kind == parley.KindCredential {
					return parley.Answer{Choice: parley.ChoiceAnswered, Secrets: parley.Credentials{in.Credentials[0]: "hunter2hunter2"}}, nil
				}
				tries++
				age := "old"
				if tries > 1 {
					age = "41"
				}
				return parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{
					"Your name: as in the passport": "Ana", "age": age, "ok": "Yes", "color": "Green", "sizes": "Small, thin, Large", "mail": "Leave it out",
				}}, nil
			}}
			res := run(t, box, d, "write", 1)
			if want := `accept {"age":41,"color":"g","name":"Ana","ok":true,"pin":"hunter2hunter2","sizes":["s","l"]}`; res.Output != want {
				t.Errorf("got  %+v\nwant %s", res.ToolResult, want)
			}
			if len(d.asked) != 4 {
				t.Fatalf("asked %d times", len(d.asked))
			}
			form, secret, again := d.asked[0], d.asked[1], d.asked[2]
			if form.Title != "test asks: Who are you?" || len(form.Questions) != 6 || !strings.Contains(again.Text, `"old"`) || !strings.Contains(again.Text, "is not a whole number") {
				t.Errorf("asked %+v\nand again %q", form, again.Text)
			}
			if secret.Kind != parley.KindCredential || !cmp.Equal(secret.Credentials, []string{"test_pin"}) || !strings.Contains(secret.Text, "not stored") {
				t.Errorf("the secret: %+v", secret)
			}
			for _, q := range form.Questions {
				if q.Question == "pin" {
					t.Error("a password is asked for like the rest")
				}
			}
		})
	}
}

// TestElicitNot: a person who declines has declined; a question that nobody could answer is
// cancelled. A read without an answer yet ends, and is made again when the answer is there.
func TestElicitNot(t *testing.T) {
	t.Parallel()
	for era, wrap := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			box := asking(t, wrap, &sdk.ElicitParams{Mode: "form", Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
			for said, want := range map[string]string{"": "decline null", "nobody answered while the call could wait": "cancel null"} {
				d := &desk{says: func(parley.Interaction) (parley.Answer, error) {
					return parley.Answer{Choice: parley.ChoiceDeny, Text: said}, nil
				}}
				if res := run(t, box, d, "write", 1); res.Output != want {
					t.Errorf("%q: got %+v", said, res.ToolResult)
				}
			}
			alone := box.Run(t.Context(), seam.Run{Call: "c9", Name: "mcp__test__write", Input: json.RawMessage(`{}`), Principal: parley.Principal{User: "ana"}}, time.Now().Add(within))
			if alone.Outcome == parley.OutcomeOK && !strings.HasPrefix(alone.Output, "cancel") {
				t.Errorf("with nobody to ask: %+v", alone.ToolResult)
			}
			waits := true
			d := &desk{says: func(parley.Interaction) (parley.Answer, error) {
				if waits {
					return parley.Answer{}, seam.ErrParked
				}
				return parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Do you agree?": "Yes"}}, nil
			}}
			if res := run(t, box, d, "look", 2); res.Outcome == parley.OutcomeOK {
				t.Errorf("without an answer: %+v", res.ToolResult)
			}
			waits = false
			if res := run(t, box, d, "look", 2); res.Output != "accept {}" && res.Output != "accept null" {
				t.Errorf("with the answer: %+v", res.ToolResult)
			}
			if d.asked[0].Key != d.asked[1].Key {
				t.Errorf("asked under %s and %s", d.asked[0].Key, d.asked[1].Key)
			}
		})
	}
}

// TestElicitLink: a person is asked to open a page if its link is acceptable, also when the server
// refuses a call until the page has been opened.
func TestElicitLink(t *testing.T) {
	t.Parallel()
	yes := func(parley.Interaction) (parley.Answer, error) {
		return parley.Answer{Choice: parley.ChoiceAnswered}, nil
	}
	for era, wrap := range eras {
		for link, fine := range map[string]bool{
			"https://pay.example.com/x?y=1": true, "http://127.0.0.1:9/x": true, "http://pay.example.com/": false, "javascript:alert(1)": false,
			"https://you@pay.example.com/": false, "https://päy.example.com/": false, "https://a/" + strings.Repeat("x", 3000): false,
		} {
			box := asking(t, wrap, &sdk.ElicitParams{Mode: "url", Message: "Pay first.", URL: link, ElicitationID: "e1"})
			d := &desk{says: yes}
			res := run(t, box, d, "write", 1)
			if fine != (res.Output == "accept null") || fine != (len(d.asked) == 1) || fine && d.asked[0].URL != link {
				t.Errorf("%s, %s: got %+v after %+v", era, link, res.ToolResult, d.asked)
			}
		}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	calls := 0
	s.AddTool(&sdk.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if calls++; calls > 1 {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "paid"}}}, nil
		}
		return nil, &jsonrpc.Error{Code: sdk.CodeURLElicitationRequired, Message: "first", Data: json.RawMessage(`{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.example/","message":"Log in."}]}`)}
	})
	box := asked(t, older(handler(s)))
	deny := &desk{says: func(parley.Interaction) (parley.Answer, error) { return parley.Answer{Choice: parley.ChoiceDeny}, nil }}
	if res := run(t, box, deny, "pay", 1); res.Outcome != parley.OutcomeError || calls != 1 {
		t.Errorf("declined: %+v after %d calls", res.ToolResult, calls)
	}
	calls = 0
	if res := run(t, box, &desk{says: yes}, "pay", 2); res.Output != "paid" || calls != 2 {
		t.Errorf("opened: %+v after %d calls", res.ToolResult, calls)
	}
}

// TestElicitOfWhom: a server of the older era does not say to which call its question belongs.
// While two calls are under way nobody is asked, and from then on it gets one call at a time.
func TestElicitOfWhom(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	var mu sync.Mutex
	there, most := 0, 0
	first := make(chan struct{})
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		mu.Lock()
		if there++; there > most {
			most = there
		}
		if there == 2 && most == 2 {
			close(first)
		}
		mu.Unlock()
		defer func() { mu.Lock(); defer mu.Unlock(); there-- }()
		select {
		case <-first:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Mode: "form", Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, errors.New("not asked")
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: res.Action}}}, nil
	})
	box := asked(t, older(handler(s)))
	d := &desk{says: func(parley.Interaction) (parley.Answer, error) {
		return parley.Answer{Choice: parley.ChoiceAnswered}, nil
	}}
	var work sync.WaitGroup
	for n := range 2 {
		work.Go(func() { run(t, box, d, "ask", n) })
	}
	work.Wait()
	got := len(d.asked)
	if got > 1 { // one may ask when the other has ended
		t.Errorf("%d persons were asked while two calls were under way", got)
	}
	mu.Lock()
	most = 0
	mu.Unlock()
	for n := range 6 {
		work.Go(func() {
			if res := run(t, box, d, "ask", 10+n); res.Output != "accept" {
				t.Errorf("got %+v", res.ToolResult)
			}
		})
	}
	work.Wait()
	if most != 1 || len(d.asked) != got+6 {
		t.Errorf("%d calls at once, and %d questions", most, len(d.asked))
	}
}
