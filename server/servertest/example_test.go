package servertest_test

import (
	"context"
	"fmt"
	"io"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/exampletest"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
	"github.com/parley-server/parley/tool"
)

// The files of an app, as an embed.FS would have them. Its script stands for the model.
var files = fstest.MapFS{
	"app.yaml":        {Data: []byte("name: till\npage: page\nscript: script.yaml\nagents: {clerk: {prompt: clerk.md, tools: [pay]}}\ntools: {bank: {}}\n")},
	"clerk.md":        {Data: []byte("Pay what the user asks for.")},
	"page/index.html": {Data: []byte("<h1>The till</h1>")},
	"script.yaml": {Data: []byte(`agents:
  clerk:
    - when: .Results
      say: "{{ (index .Results 0).Output }}"
    - call: [{tool: pay, input: {euros: 7}}]
`)},
}

type payment struct {
	Euros int `json:"euros"`
}

var bank = tool.Set{tool.New(tool.Def{
	Name: "pay", Description: "Pays.", Subject: "{euros} euros",
	Credentials: []parley.CredentialDecl{{Name: "PIN", Hosts: []string{"bank.example.com"}}},
}, func(ctx context.Context, in payment) (string, error) {
	if pin, _ := tool.From(ctx).Credential("PIN", "bank.example.com"); pin != "123456" {
		return "", tool.NoEffect(fmt.Errorf("the PIN is wrong"))
	}
	return fmt.Sprintf("Paid %d euros.", in.Euros), nil
})}

// A turn stops before a write, and asks.
func ExampleSession_Answer() {
	t, end := exampletest.T() // in a test: its own t
	defer end()
	chat := servertest.Start(t, server.App(files), server.Tools("bank", bank)).Session("till")
	turn := chat.SendWith(parley.Send{Message: "Pay 7 euros", Credentials: parley.Credentials{"PIN": "123456"}})
	fmt.Println(turn.Status)
	fmt.Println(chat.Answer(parley.ChoiceAllow).Response.Message)
	// Output:
	// waiting
	// Paid 7 euros.
}

// A call needs a credential that nobody has sent, so the turn asks for it.
func ExampleSession_AnswerWith() {
	t, end := exampletest.T()
	defer end()
	chat := servertest.Start(t, server.App(files), server.Tools("bank", bank)).Session("till")
	chat.Send("Pay 7 euros")
	chat.Answer(parley.ChoiceAllow)
	fmt.Println(chat.Open()[0].Credentials)
	turn := chat.AnswerWith(parley.AnswerInteraction{
		Answer: parley.Answer{Choice: parley.ChoiceAnswered}, Credentials: parley.Credentials{"PIN": "123456"},
	})
	fmt.Println(turn.Response.Message)
	// Output:
	// [PIN]
	// Paid 7 euros.
}

// An app's own page is served at an origin of its own.
func ExampleServer_Browser() {
	t, end := exampletest.T()
	defer end()
	browser := servertest.Start(t, server.App(files), server.Tools("bank", bank)).Browser()
	for _, url := range []string{"http://till.localhost/", "http://till.localhost/v1/sessions", "http://127.0.0.1/v1/sessions?app=till"} {
		resp, err := browser.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode, len(body) > 0)
	}
	// Output:
	// 200 true
	// 403 true
	// 200 true
}
