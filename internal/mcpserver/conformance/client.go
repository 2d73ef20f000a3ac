package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
)

// What the suite tells a client that it starts.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT"
)

// inputs are what the suite's tools are called with; all others get an empty object.
var inputs = map[string]any{
	"add_numbers": object{"a": 5, "b": 3},
}

// person answers a form with its defaults, and otherwise with the first option.
func person(_ context.Context, in parley.Interaction) (parley.Answer, error) {
	a := parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}
	for _, q := range in.Questions {
		a.Answers[q.Question] = "Ana"
		for i, o := range q.Options {
			if i == 0 || o.Description == "the default" {
				a.Answers[q.Question] = o.Label
			}
		}
	}
	return a, nil
}

// use is the client of one scenario: it takes the tools of the suite's server as an app does,
// and calls them.
func use(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second) // the suite waits for 30 s
	defer cancel()
	var told struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if text := os.Getenv(contextVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			return fmt.Errorf("%s: %w", contextVariable, err)
		}
	}
	o := mcp.Options{Name: "suite", URL: url, Hosts: []string{"localhost", "127.0.0.1"}}
	browsing := strings.HasPrefix(os.Getenv(scenarioVariable), "auth/") && !strings.HasPrefix(os.Getenv(scenarioVariable), "auth/client-credentials")
	var browse *browser
	switch {
	case browsing:
		var err error
		if browse, err = newBrowser(url, told.ClientID, told.ClientSecret); err != nil {
			return err
		}
		o.Login = browse.login
	case told.ClientID != "" && told.ClientSecret != "":
		o.OAuth = &mcp.OAuth{ClientID: told.ClientID, ClientSecret: told.ClientSecret}
	}
	tools, err := mcp.New(o)
	if err != nil {
		return err
	}
	defer tools.Close()
	decls, err := tools.Tools(ctx)
	if err != nil {
		return err
	}
	call := func(name string, input any) error {
		raw, err := json.Marshal(input)
		if err != nil {
			return err
		}
		if browse != nil {
			if err := browse.visit(ctx, tools, name); err != nil {
				fmt.Printf("%s: %v\n", name, err)
				return nil
			}
		}
		res, err := tools.Run(ctx, seam.Run{
			Call: parley.CallID(name), Name: name, Input: raw, Attempt: 1, Principal: parley.Principal{User: "suite"},
			Progress: func(string) {}, Keep: func(seam.File) error { return nil }, Ask: person,
		})
		fmt.Printf("%s: %s %.200s %v\n", name, res.Outcome, res.Output, err)
		return nil // a tool may be meant to fail
	}
	const prefix = "mcp__suite__"
	if told.ToolCalls != nil {
		for _, c := range told.ToolCalls {
			if err := call(prefix+c.Name, c.Arguments); err != nil {
				return err
			}
		}
		return nil
	}
	if browse != nil {
		// The first call lets the person log in, the second finds tools that need more.
		for range 2 {
			for _, d := range decls {
				if err := call(d.Name, object{}); err != nil {
					return err
				}
			}
			if decls, err = tools.Tools(ctx); err != nil {
				return err
			}
		}
	}
	for _, d := range decls {
		name := strings.TrimPrefix(d.Name, prefix)
		input, ok := inputs[name]
		switch {
		case name == "json_schema_echo":
			for _, other := range decls {
				if other.Name == prefix+"json_schema_2020_12_tool" {
					input, ok = object{"schema": other.InputSchema}, true
				}
			}
		case os.Getenv(scenarioVariable) == "http-invalid-tool-headers":
			input, ok = object{"region": "us-west1"}, true
		}
		if !ok {
			input = object{}
		}
		if err := call(d.Name, input); err != nil {
			return err
		}
	}
	return nil
}
