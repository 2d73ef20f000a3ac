package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/internal/config"
)

var known = config.Known{Toolsets: []string{"notion", "slack"}, Wires: []string{"chat"}, Runtimes: []string{"loop"}}

func folder(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

func load(t *testing.T, builtin fs.FS, body string, vars ...string) ([]*config.App, error) {
	t.Helper()
	s, _, err := settings(t, body, nil, vars...)
	if err != nil {
		t.Fatal(err)
	}
	return s.LoadApps([]fs.FS{builtin}, known)
}

const small = "model: a/b\nagents:\n  one: {prompt: p.md}\n"

func TestASmallAppGetsDefaults(t *testing.T) {
	t.Parallel()
	got, err := load(t, folder("mine/app.yaml", small, "mine/p.md", " Be kind.\r\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := parley.App{
		Name: "mine", Title: "mine", Runtime: "loop", Entry: "one", Model: "a/b", Busy: parley.BusyReject, MaxOpenTurns: 1, Resume: parley.ResumeManual,
		Agents: map[string]parley.AgentDef{"one": {Name: "one", Prompt: "Be kind.", History: parley.HistoryAll}},
		Tools:  []parley.ToolDecl{},
	}
	app, err := got[0].Resolve(nil)
	if diff := cmp.Diff(want, app); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}

func TestEverySettingOfAnApp(t *testing.T) {
	t.Parallel()
	body := `
name: mine
title: My app
description: Does things.
runtime: loop
entry: one
script: rules.yaml
agents:
  one:
    description: First.
    prompt: prompts/one.md
    tools: [read_notion_mock]
    handoffs: [two]
    max_output: 1_000
    temperature: 0
  two: {prompt: prompts/two.md, history: none, model: x/y}
data: demo
tools: {notion: {}, slack: {data: other}}
policy:
  rules: [{verdict: deny, tool: "read_*", reason: no}]
  fixed_model: true
  modes: [plan, bypassPermissions]
  answer_within: 1h
budgets: {max_steps: 3, max_usd: 0.5}
memory: {last_k: 6}
busy: enqueue
resume: auto
wires: [chat]
examples: [Hello?]
follow_ups: [And now?]
`
	fsys := folder("mine/app.yaml", body, "mine/rules.yaml", "", "mine/prompts/one.md", "1", "mine/prompts/two.md", "2", "mine/demo/f", "d", "mine/other/f", "o")
	got, err := load(t, fsys, "model: not/this\n")
	if err != nil {
		t.Fatal(err)
	}
	zero := 0.0
	tool := parley.ToolDecl{Name: "read_notion_mock"}
	want := parley.App{
		Name: "mine", Title: "My app", Description: "Does things.", Runtime: "loop", Entry: "one", Model: "scripted/mine",
		Agents: map[string]parley.AgentDef{
			"one": {Name: "one", Description: "First.", Prompt: "1", Tools: []string{"read_notion_mock"}, Handoffs: []string{"two"}, History: "all", MaxOutput: 1000, Temperature: &zero},
			"two": {Name: "two", Prompt: "2", Model: "x/y", History: "none"},
		},
		Tools: []parley.ToolDecl{tool},
		Policy: parley.Policy{
			Rules: []parley.Rule{{Verdict: parley.Deny, Tool: "read_*", Reason: "no"}}, FixedModel: true,
			Modes: []parley.PermissionMode{parley.ModePlan, parley.ModeBypassPermissions}, AnswerWithin: parley.Duration(time.Hour),
		},
		Budgets: parley.Budgets{MaxSteps: 3, MaxUSD: 0.5}, Memory: parley.MemoryOptions{LastK: 6},
		Busy: parley.BusyEnqueue, MaxOpenTurns: 8, Resume: parley.ResumeAuto, Wires: []string{"chat"}, Examples: []string{"Hello?"}, FollowUps: []string{"And now?"},
	}
	app, err := got[0].Resolve([]parley.ToolDecl{{Name: "unused"}, tool})
	if diff := cmp.Diff(want, app); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	var sets []string
	for _, s := range got[0].Toolsets {
		b, err := fs.ReadFile(s.Data.FS, "f")
		sets = append(sets, s.Kind+" "+s.Data.Name+" "+string(b))
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"notion built-in apps/mine/demo d", "slack built-in apps/mine/other o"}, sets); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestIssuerWithTheNameOfAnApp: users of an issuer and of an API that an app asks are not mixed up.
func TestIssuerWithTheNameOfAnApp(t *testing.T) {
	t.Parallel()
	files := folder("mine/app.yaml", small+"tools: {rest: {base_urls: [https://a.example], identity_url: https://a.example/me}}\n", "mine/p.md", "x")
	issuer := func(name string) string {
		return "auth: {issuers: {" + name + ": {issuer: https://b.example, audience: [c]}}}\n"
	}
	if _, err := load(t, files, issuer("other")); err != nil {
		t.Error(err)
	}
	_, err := load(t, files, issuer("mine"))
	want := []string{"4: tools.rest.identity_url: identifies users as mine:ID, and so does auth.issuers.mine in parley.yaml; give the issuer another name, or two people may be one user"}
	if diff := cmp.Diff(want, mistakes(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMistakesInAnApp(t *testing.T) {
	t.Parallel()
	ok := "agents:\n  one: {prompt: p.md}\n  two: {prompt: p.md}\nentry: one\nmodel: a/b\n"
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"unknown keys": {"titel: x\nagents:\n  one:\n    promt: p.md\nbudgets: {max_step: 1}\npolicy: {rules: [{verdict: deny, efect: read}]}\n", []string{
			"1: titel: unknown key; did you mean title?",
			"3: agents.one: has no model, and the app names none; write model: PROVIDER/MODEL here or at the top of the file, or give --model",
			"4: agents.one.promt: unknown key; did you mean prompt?",
			"5: budgets.max_step: unknown key; did you mean max_steps?",
			"6: policy.rules[0].efect: unknown key; did you mean effect?",
		}},
		"wrong types": {ok + "busy: [a]\nbudgets: {max_steps: many}\n", []string{
			"6: busy: is a list, expected text",
			"7: budgets.max_steps: is text, expected a whole number",
		}},
		"names that lead nowhere": {"entry: on\nagents:\n  one:\n    prompt: no.md\n    handoffs: [tow, one, two, two]\n  two: {prompt: ../p.md}\nmodel: a/b\nscript: s.yaml\ntools: {notoin: {}}\nwires: [chats]\n", []string{
			`1: entry: there is no agent "on"; did you mean one?`,
			"4: agents.one.prompt: no.md is missing",
			`5: agents.one.handoffs[0]: there is no agent "tow"; did you mean two?`,
			"5: agents.one.handoffs[1]: an agent cannot hand over to itself",
			`5: agents.one.handoffs[3]: "two" is listed twice`,
			`6: agents.two.prompt: "../p.md" is not a path inside the app's folder`,
			"8: script: s.yaml is missing",
			`9: tools.notoin: there is no toolset "notoin"; did you mean notion?`,
			`10: wires[0]: there is no wire "chats"; did you mean chat?`,
		}},
		"values": {ok + "busy: wait\nresume: no\nmax_open_turns: -1\nmemory: {last_k: -1}\nbudgets: {max_usd: -1}\nname: other\ndata: ../..\nruntime: cli\npolicy: {rules: [{verdict: maybe}], modes: [yolo]}\n", []string{
			`6: busy: "wait" is not one of reject, enqueue, interrupt, steer`,
			`7: resume: "no" is not one of auto, manual`,
			"8: max_open_turns: has to be at least 1",
			"9: memory.last_k: cannot be negative; leave it out for all that fits",
			"10: budgets.max_usd: cannot be negative; leave it out for no limit",
			`11: name: is "other", and the folder is named "mine"; an app has the name of its folder`,
			`12: data: "../.." leads out of the app's folder; write an absolute path`,
			`13: runtime: there is no runtime "cli"; known are loop`,
			`14: policy.rules[0].verdict: "maybe" is not one of allow, ask, confirm, deny`,
			`14: policy.modes[0]: "yolo" is not one of default, acceptEdits, plan, bypassPermissions`,
		}},
		"a mode that there is not":   {ok + "mode: yolo\n", []string{`6: mode: "yolo" is not one of default, acceptEdits, plan, bypassPermissions`}},
		"a mode that is not offered": {ok + "mode: bypassPermissions\n", []string{"6: mode: is bypassPermissions, which policy.modes does not offer"}},
		"twice, under two names": {ok + "memory: {last_k: 1, lastK: 2}\nttl: {session_idle: 1h, sessionIdleDays: 1, continuationRetentionHours: -1}\nmax_open_turns: 2\nconcurrency: {maxOpenContinuationsPerSession: 2}\nstreaming: {flushCadenceMs: -1, partialUpdateInterval: 1}\n", []string{
			"6: memory.lastK: is set twice, first in line 6",
			"7: ttl.continuation_retention_hours: has to be more than 0, and less than a hundred years",
			"7: ttl.session_idle_days: sets the same as ttl.session_idle; leave one of them out",
			"9: concurrency.max_open_continuations_per_session: sets the same as max_open_turns; leave one of them out",
			"10: streaming.flush_cadence_ms: has to be more than 0, and at most an hour",
			"10: streaming.partialUpdateInterval: unknown key; known are flush_cadence_ms, partial_update_interval_ms",
		}},
		"again, under another name": {ok + "ttl: {session_idle: 1h, sessionIdleDays: 1, continuationRetentionHours: -1}\nmax_open_turns: 2\nconcurrency: {maxOpenContinuationsPerSession: 2}\nstreaming: {flushCadenceMs: -1}\n", []string{
			"6: ttl.session_idle_days: sets the same as ttl.session_idle; leave one of them out",
			"6: ttl.continuation_retention_hours: has to be more than 0, and less than a hundred years",
			"8: concurrency.max_open_continuations_per_session: sets the same as max_open_turns; leave one of them out",
			"9: streaming.flush_cadence_ms: has to be more than 0, and at most an hour",
		}},
		"services of its own": {ok + "tools:\n  http:\n    - url: http://a\n      secret: x\n      timeout: 2h\n      tools:\n        a: {description: x, input: {type: array}, effect: idempotent}\n        b: {input: no.json, timeout: -1s}\n    - tools: {}\n      unknown: 1\n  notion: {}\n", []string{
			"10: tools.http[0].timeout: has to be more than 0, and at most 1h0m0s",
			"12: tools.http[0].tools.a.input: must be the schema of an object: {type: object, properties: ...}",
			"12: tools.http[0].tools.a: is idempotent and has no key_ttl; say how long the service recognises a repeated call by its Idempotency-Key, such as 24h",
			"13: tools.http[0].tools.b.input: no.json is missing",
			"13: tools.http[0].tools.b.timeout: has to be more than 0, and at most 1h0m0s",
			"13: tools.http[0].tools.b: has no description; the model chooses tools by it",
			`14: tools.http[1]: has no secret that signs calls; make one with: echo "whsec_$(openssl rand -base64 32)"`,
			"14: tools.http[1]: has no tools; write each with its name, a description and its input",
			"14: tools.http[1]: has no url; write the address that calls are posted to",
			"15: tools.http[1].unknown: unknown key; known are auth, private, secret, timeout, tools, url",
		}},
		"one service": {ok + "tools: {http: {url: http://a, tools: {a: {description: x}}}}\n", []string{
			`6: tools.http: has no secret that signs calls; make one with: echo "whsec_$(openssl rand -base64 32)"`,
		}},
		"programs of its own": {ok + "tools:\n  command:\n    - at_once: 101\n      env: {'A=B': x}\n      timeout: 2h\n      memory: much\n    - run: \"\"\n      unknown: 1\n", []string{
			"8: tools.command[0].at_once: has to be from 1 to 100",
			"8: tools.command[0]: an app inside the program has no folder to run commands in",
			"8: tools.command[0]: has no tools; write each with its name, a description and its input",
			"8: tools.command[0]: names no program; write it with its arguments as a list: [python3, tool.py]",
			"9: tools.command[0].env.A=B: is not a valid variable name; use letters, digits and _, and do not begin with a digit",
			"10: tools.command[0].timeout: has to be more than 0, and at most 1h0m0s",
			`11: tools.command[0].memory: "much" is not a size; write it like 4096, 256KiB or 1MiB`,
			"12: tools.command[1]: an app inside the program has no folder to run commands in",
			"12: tools.command[1]: has no tools; write each with its name, a description and its input",
			"12: tools.command[1]: names no program; write it with its arguments as a list: [python3, tool.py]",
			"13: tools.command[1].unknown: unknown key; known are at_once, env, memory, run, timeout, tools",
		}},
		"what clients run": {ok + "tools:\n  client:\n    a b: {}\n    note: {description: Notes., claim_within: 9000h, timeout: 2h, effect: wirte, at_once: 2}\ncaller_tools: {effect: idempotent, timeout: -1s}\n", []string{
			"8: tools.client.a b: cannot be a tool's name; use letters, digits, _ and -, at most 64",
			"8: tools.client.a b: has no description; the model chooses tools by it",
			"9: tools.client.note.at_once: unknown key; known are claim_within, description, effect, input, key_ttl, output, outward, subject, timeout, web",
			"9: tools.client.note.claim_within: has to be more than 0, and at most 720h0m0s",
			`9: tools.client.note.effect: "wirte" is not one of read, idempotent, write`,
			"9: tools.client.note.timeout: has to be more than 0, and at most 1h0m0s",
			`10: caller_tools.effect: "idempotent" is not one of read, write`,
			"10: caller_tools.timeout: has to be more than 0, and at most 1h0m0s",
		}},
		"MCP servers": {ok + `tools:
  mcp:
    - file: absent.json
    - file: mcp.json
      vars: {HOST: example.com}
    - name: "a b"
      url: http://a
    - name: more
      allow: "["
      auth: {bearer: x, oauth: {client_id: a}}
      tools: {a: {effect: idempotent}, b: {effect: wirte}}
    - name: lost
    - name: both
      run: sh
      url: http://a
      headers: {"a b": x}
      env: {"1": x}
      idle: -1s
      at_once: 101
`, []string{
			"8: tools.mcp[0].file: absent.json is missing",
			`9: tools.mcp[1].file: mcp.json: mcpServers.fs: an app inside the program has no folder to run programs in`,
			`9: tools.mcp[1].file: mcp.json: mcpServers.fs: env.KEY refers to ${ANTHROPIC_API_KEY}; write what it stands for under vars`,
			`9: tools.mcp[1].file: mcp.json: mcpServers.none: has no command`,
			`9: tools.mcp[1].file: mcp.json: mcpServers.old: has the type "sse"; Parley speaks stdio and http`,
			`9: tools.mcp[1].file: mcp.json: mcpServers.web: has a url and no type; write "type": "http"`,
			"11: tools.mcp[2]: needs a name of letters, digits, _ and -, at most 32; its tools are named mcp__NAME__...",
			`13: tools.mcp[3].allow[0]: "[" is not a pattern; write a tool's name, which may have *`,
			"15: tools.mcp[3].auth: has bearer and oauth; leave one of them out",
			"16: tools.mcp[3].tools.a: is idempotent and has no key_ttl; say how long the service recognises a repeated call by its Idempotency-Key, such as 24h",
			`16: tools.mcp[3].tools.b.effect: "wirte" is not one of read, idempotent, write`,
			"17: tools.mcp[4]: names no server; write run with the program and its arguments, [npx, -y, some-server], or its url",
			"18: tools.mcp[5]: an app inside the program has no folder to run programs in",
			"20: tools.mcp[5].url: names the server a second time; remove run or url",
			`21: tools.mcp[5].headers.a b: "a b" is not a valid header name`,
			"22: tools.mcp[5].env.1: is not a valid variable name; use letters, digits and _, and do not begin with a digit",
			"23: tools.mcp[5].idle: has to be more than 0",
			"24: tools.mcp[5].at_once: has to be from 1 to 100",
		}},
		"secrets": {ok + `tools:
  openapi:
    - file: p.md
      auth: {bearer: {value: x, credential: CRM}, plain_http: true}
    - file: p.md
      auth: {basic: {user: u, password: {credential: "a b"}}}
    - file: p.md
      auth: {header: {name: X, value: {credental: CRM}}}
    - file: p.md
      auth: {query: {value: {credential: CRM}}}
    - file: p.md
      auth: {bearer: {credential: ""}}
    - file: p.md
      auth: {plain_http: true}
    - file: p.md
      auth: {bearer: "", plain_http: often}
    - file: p.md
      auth: {bearer: {credential: CRM}, header: {name: "X Y", value: x}}
  http:
    url: http://a
    secret: x
    auth: {header: {name: Webhook-Id, value: {credential: CRM}}}
    tools: {a: {description: x}}
  mcp:
    - name: one
      url: http://a
      auth: {bearer: {credential: 1a, listing: x}}
    - name: two
      url: http://a
      auth: {bearer: {value: x, listing: x}}
    - name: three
      run: sh
      auth: {bearer: {credential: CRM}}
`, []string{
			"9: tools.openapi[0].auth.bearer: has a value and a credential; leave one of them out",
			`11: tools.openapi[1].auth.basic.password.credential: "a b" cannot be the name of a credential; use letters, digits and _, at most 64, and begin with a letter`,
			"13: tools.openapi[2].auth.header.value.credental: unknown key; did you mean credential?",
			"15: tools.openapi[3].auth.query: has no name",
			`17: tools.openapi[4].auth.bearer.credential: "" cannot be the name of a credential; use letters, digits and _, at most 64, and begin with a letter`,
			"19: tools.openapi[5].auth: must have one of bearer, basic, header, query",
			"21: tools.openapi[6].auth.bearer: is empty",
			"21: tools.openapi[6].auth.plain_http: is text, expected true or false",
			"23: tools.openapi[7].auth: has bearer and header; leave all but one of them out",
			`23: tools.openapi[7].auth.header.name: "X Y" is not a valid header name`,
			"27: tools.http.auth.header.name: is a header that Parley itself sets in each call",
			`32: tools.mcp[0].auth.bearer.credential: "1a" cannot be the name of a credential; use letters, digits and _, at most 64, and begin with a letter`,
			"35: tools.mcp[1].auth.bearer.listing: is only for a bearer with a credential",
			"36: tools.mcp[2]: an app inside the program has no folder to run programs in",
			"38: tools.mcp[2].auth: is for servers with a url; a program gets credentials by env",
		}},
		"nothing": {"", []string{"1: agents: an app needs at least one agent", "1: entry: name the agent that gets the user's message"}},
		"no entry, no model, no prompt": {"agents:\n  one: {}\n  two: {prompt: empty.md}\n", []string{
			"1: entry: name the agent that gets the user's message",
			"2: agents.one: has no model, and the app names none; write model: PROVIDER/MODEL here or at the top of the file, or give --model",
			"2: agents.one: has no prompt; name a file with its instructions",
			"3: agents.two: has no model, and the app names none; write model: PROVIDER/MODEL here or at the top of the file, or give --model",
			"3: agents.two.prompt: empty.md is empty",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, folder("mine/app.yaml", c.body, "mine/p.md", "x", "mine/empty.md", " ", "mine/mcp.json", wrongServers), "")
			if err == nil {
				t.Fatal("got no error")
			}
			got := strings.Split(strings.ReplaceAll(err.Error(), "built-in apps/mine/app.yaml:", ""), "\n")
			sorted := func(lines []string) map[string]bool {
				m := map[string]bool{}
				for _, l := range lines {
					m[l] = true
				}
				return m
			}
			if diff := cmp.Diff(sorted(c.want), sorted(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

const wrongServers = `{"mcpServers": {
  "fs": {"command": "npx", "args": ["-y", "${PACKAGE:-server}"], "env": {"KEY": "${ANTHROPIC_API_KEY}"}},
  "more": {"type": "http", "url": "https://${HOST}/mcp"},
  "none": {}, "old": {"type": "sse", "url": "http://a"}, "web": {"url": "http://a"}
}}`

// TestMCPServersOfAFile: a file of the common form, with the variables that the app lists, and
// what the app says besides.
func TestMCPServersOfAFile(t *testing.T) {
	t.Parallel()
	file := `{"mcpServers": {
  "crm": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"X-Key": "k ${KEY}", "X-Mode": "${MODE:-test}"}, "timeout": 1500, "alwaysLoad": true},
  "web": {"type": "streamable-http", "url": "https://b/mcp"},
  "wit": {"type": "http", "url": "https://d/mcp", "sampling": true}
}}`
	got, err := load(t, folder("mine/app.yaml", `model: a/b
agents: {one: {prompt: p.md}}
tools:
  mcp:
    - {file: .mcp.json, vars: {HOST: crm.example.com, KEY: "${CRM_KEY}"}}
    - {name: crm, allow: "get_*", tools: {get_a: {effect: write, subject: "{id}"}}}
    - {name: web, url: "https://c/mcp", sampling: true, auth: {bearer: "${CRM_KEY}"}}
`, "mine/p.md", "x", "mine/.mcp.json", file), "", "CRM_KEY=secret")
	if err != nil {
		t.Fatal(err)
	}
	var servers []*config.MCPServer
	for _, s := range got[0].Toolsets {
		servers = append(servers, s.MCP)
	}
	want := []*config.MCPServer{
		{
			Name: "crm", URL: "https://crm.example.com/mcp", Headers: map[string]string{"X-Key": "k secret", "X-Mode": "test"}, Refs: []string{"secret"},
			Allow: []string{"get_*"}, Tools: map[string]config.MCPTool{"get_a": {Effect: "write", Subject: "{id}"}}, Timeout: parley.Duration(1500 * time.Millisecond),
		},
		{Name: "web", URL: "https://c/mcp", Auth: config.MCPAuth{Bearer: config.Secret{Value: "secret"}}, Tools: map[string]config.MCPTool{}, Sampling: true},
		{Name: "wit", URL: "https://d/mcp", Headers: map[string]string{}, Sampling: true},
	}
	if diff := cmp.Diff(want, servers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestToolsByPattern: an agent may name tools by how their names begin.
func TestToolsByPattern(t *testing.T) {
	t.Parallel()
	got, err := load(t, folder("mine/app.yaml", "model: a/b\nentry: one\nagents: {one: {prompt: p.md, tools: [b, \"mcp__fs__*\"]}, two: {prompt: p.md, tools: [mcp__fs__b]}}\n", "mine/p.md", "x"), "")
	if err != nil {
		t.Fatal(err)
	}
	app, err := got[0].Resolve([]parley.ToolDecl{{Name: "a"}, {Name: "b"}, {Name: "mcp__fs__a"}, {Name: "mcp__fs__b"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b", "mcp__fs__a", "mcp__fs__b"}, app.Agents["one"].Tools); diff != "" || len(app.Tools) != 3 {
		t.Errorf("%d tools (-want +got):\n%s", len(app.Tools), diff)
	}
	if _, err := got[0].Resolve([]parley.ToolDecl{{Name: "b"}}); err == nil || !strings.Contains(err.Error(), `agents.one.tools[1]: there is no tool "mcp__fs__*"`) {
		t.Errorf("got %v", err)
	}
}

// TestRulesOfTools: an agent's prompt has the rules of its tools, each once, and no others.
func TestRulesOfTools(t *testing.T) {
	t.Parallel()
	got, err := load(t, folder("mine/app.yaml", "model: a/b\nentry: one\nagents: {one: {prompt: p.md, tools: [a, b]}, two: {prompt: p.md, tools: [c]}}\n"+
		"tools: {web: {allow: [docs.intern], no_rule: true, search: {provider: searxng, url: http://x}}}\n", "mine/p.md", "x"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Toolset{{Kind: "web", At: "tools.web", Web: &config.Web{Allow: []string{"docs.intern"}, NoRule: true, Search: config.WebSearch{Provider: "searxng", URL: "http://x"}}}}
	if diff := cmp.Diff(want, got[0].Toolsets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	decls := []parley.ToolDecl{{Name: "a", Rule: "Mind."}, {Name: "b", Rule: "Mind."}, {Name: "c"}}
	for range 2 { // as for each scope
		app, err := got[0].Resolve(decls)
		if err != nil {
			t.Fatal(err)
		}
		if one, two := app.Agents["one"].Prompt, app.Agents["two"].Prompt; one != "x\n\nMind." || two != "x" {
			t.Errorf("prompts %q, %q", one, two)
		}
	}
}

func TestAToolThatNobodyHasIsAMistake(t *testing.T) {
	t.Parallel()
	got, err := load(t, folder("mine/app.yaml", "model: a/b\nagents:\n  one:\n    prompt: p.md\n    tools:\n      - read_notion\n", "mine/p.md", "x"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = got[0].Resolve([]parley.ToolDecl{{Name: "read_notion_mock"}, {Name: "read_slack_mock"}})
	want := `built-in apps/mine/app.yaml:6: agents.one.tools[0]: there is no tool "read_notion"; known are read_notion_mock, read_slack_mock`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAUsersAppReplacesABuiltIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, body := range map[string]string{"one/app.yaml": "title: Mine\n" + small, "one/p.md": "own", "three/app.yaml": small, "three/p.md": "own", "notes.txt": "x"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	builtin := folder("one/app.yaml", small, "one/p.md", "ours", "two/app.yaml", small, "two/p.md", "ours")
	names := func(body string) string {
		got, err := load(t, builtin, body)
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, a := range got {
			out = append(out, a.Name+"="+a.Title+"/"+a.Agents["one"].Prompt)
		}
		return strings.Join(out, " ")
	}
	for body, want := range map[string]string{
		"":                                      "one=one/ours two=two/ours",
		"apps: " + dir:                          "one=Mine/own three=three/own two=two/ours",
		"apps: " + dir + "\nenabled: [three]":   "three=three/own",
		"enabled: [tow]":                        `enabled: there is no app "tow"; did you mean two?`,
		"app: {thre: {model: x}}":               `app: there is no app "thre"; known are one, two`,
		"apps: " + filepath.Join(dir, "nobody"): "apps: " + filepath.Join(dir, "nobody") + " is missing",
	} {
		if got := names(body); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// TestUnknown_app: the error says where apps are looked for.
func TestUnknown_app(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"enabled: [mine]": "with --apps or PARLEY_APPS",
		"enabled: [mine]\napps: " + t.TempDir() + "\n": "apps of your own are the folders in /",
	} {
		if _, err := load(t, apps.FS(), body); !strings.Contains(parley.Info(err).Hint, want) {
			t.Errorf("%s: %v, hint %q", body, err, parley.Info(err).Hint)
		}
	}
}

func TestChaos(t *testing.T) {
	t.Parallel()
	decls := []parley.ToolDecl{{Name: "read_notion_mock"}, {Name: "read_slack_mock"}}
	got, err := load(t, apps.FS(), "enabled: [chaos]")
	if err != nil {
		t.Fatal(err)
	}
	app, err := got[0].Resolve(decls)
	if err != nil {
		t.Fatal(err)
	}
	shape := map[string][]string{}
	for name, a := range app.Agents {
		shape[name] = append([]string{string(a.History), strings.Join(a.Tools, " ")}, a.Handoffs...)
	}
	want := map[string][]string{
		"interface":   {"all", "", "scavenger"},
		"scavenger":   {"none", "read_notion_mock read_slack_mock", "synthesizer"},
		"synthesizer": {"none", "", "interface"},
	}
	if diff := cmp.Diff(want, shape); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if app.Entry != "interface" || app.Model != "scripted/chaos" || app.Resume != parley.ResumeAuto || app.Busy != parley.BusyReject {
		t.Errorf("got entry %s, model %s, resume %s, busy %s", app.Entry, app.Model, app.Resume, app.Busy)
	}
	if _, err := fs.Stat(got[0].Data.FS, "mock_notion.json"); err != nil {
		t.Error("the demo's data is not in the binary:", err)
	}

	dir := t.TempDir()
	got, err = load(t, apps.FS(), "enabled: [chaos]\napp: {chaos: {data: elsewhere}}", "PARLEY_CHAOS_DATA="+dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got[0].Toolsets {
		if s.Data.Name != dir {
			t.Errorf("%s: got data of %s, want %s", s.Kind, s.Data.Name, dir)
		}
	}
}

// TestHome_has_the_defaults_of_its_seed: home has the defaults of the architecture that it
// implements, with the same numbers under the same names.
func TestHome_has_the_defaults_of_its_seed(t *testing.T) {
	t.Parallel()
	type values struct {
		Budgets      parley.Budgets
		Memory       parley.MemoryOptions
		TTL          parley.TTL
		MaxOpenTurns int
		Partial      parley.Duration
		Flush        parley.Duration
		LiveFiles    bool
	}
	want := values{
		Memory:       parley.MemoryOptions{LastK: 6, SummaryTokens: 2000, Retrieve: true},
		Budgets:      parley.Budgets{MaxSteps: 8, MaxToolCalls: 16, MaxDurationMS: 120_000, MaxTokensPerTurn: 100_000},
		TTL:          parley.TTL{SessionIdle: parley.Duration(7 * 24 * time.Hour), TurnSteps: parley.Duration(24 * time.Hour)},
		MaxOpenTurns: 1,
		Partial:      parley.Duration(500 * time.Millisecond),
		Flush:        parley.Duration(2 * time.Second),
		LiveFiles:    true,
	}
	of := func(text string) values {
		t.Helper()
		s, _, err := settings(t, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.LoadApps([]fs.FS{apps.FS()}, config.Known{}) // any tools and wires
		if err != nil {
			t.Fatal(err)
		}
		a := got[0]
		return values{a.Budgets, a.Memory, a.TTL, a.MaxOpenTurns, a.PartialEvery, a.FlushEvery, a.LiveFiles}
	}
	if diff := cmp.Diff(want, of("enabled: [home]")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want.LiveFiles = false
	if diff := cmp.Diff(want, of("enabled: [home]\napp: {home: {live_files: false}}")); diff != "" {
		t.Errorf("without files -want +got:\n%s", diff)
	}
	raw, err := fs.ReadFile(apps.FS(), "home/app.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"lastK: 6", "summaryTokens: 2000", "maxSteps: 8", "maxToolCalls: 16", "maxDurationMs: 120000", "maxTokensPerTurn: 100000",
		"sessionIdleDays: 7", "continuationRetentionHours: 24", "partialUpdateIntervalMs: 500", "flushCadenceMs: 2000", "maxOpenContinuationsPerSession: 1",
	} {
		if !strings.Contains(string(raw), "\n  "+line) {
			t.Errorf("app.yaml does not say %s", line)
		}
	}
}

// TestSettingsMayBeInCamelCase: a setting has the same effect under either name.
func TestSettingsMayBeInCamelCase(t *testing.T) {
	t.Parallel()
	both := map[string]parley.App{}
	for name, text := range map[string]string{
		"snake": "memory: {last_k: 3, summary_tokens: 50}\nbudgets: {max_duration_ms: 1000, max_usd: 0.5}\nttl: {session_idle: 36h, turn_steps: 90m}\nmax_open_turns: 3\nagents: {one: {prompt: p.md, max_output: 9}}\nmodel: a/b\n",
		"camel": "memory: {lastK: 3, summaryTokens: 50}\nbudgets: {maxDurationMs: 1000, maxUsd: 0.5}\nttl: {sessionIdleDays: 1.5, continuationRetentionHours: 1.5}\nconcurrency: {maxOpenContinuationsPerSession: 3}\nagents: {one: {prompt: p.md, maxOutput: 9}}\nmodel: a/b\n",
	} {
		got, err := load(t, folder("mine/app.yaml", text, "mine/p.md", "x"), "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		both[name] = got[0].App
	}
	if diff := cmp.Diff(both["snake"], both["camel"]); diff != "" {
		t.Errorf("-snake +camel:\n%s", diff)
	}
}
