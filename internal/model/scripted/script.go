package scripted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/seam"
)

// maxSaid limits the output of one template.
const maxSaid = 1 << 20

// script is script.yaml.
type script struct {
	// Ignore lists words of a question that do not say what it is about, in addition to the stop
	// words of English.
	Ignore []string `yaml:"ignore"`
	// Refer lists words by which a question refers to earlier turns. Ask lists words that say
	// what is wanted, such as "library".
	Refer []string `yaml:"refer"`
	Ask   []string `yaml:"ask"`
	// Fresh lists words that ask to look again even if the topic is known.
	Fresh []string `yaml:"fresh"`
	// Weak lists words that alone do not relate a record to the question.
	Weak []string `yaml:"weak"`
	// Survey lists words for a search over everything, because the tools find nothing without a
	// word.
	Survey []string `yaml:"survey"`
	// Asks are regular expressions, by the name of what a question asks for.
	Asks map[string]string `yaml:"asks"`
	// Idioms are regular expressions of phrases that name nothing, although their words do.
	Idioms []string `yaml:"idioms"`
	// Groups are sets of words for one thing or one kind of thing. Of two topics of a group only
	// one can hold.
	Groups map[string]group `yaml:"groups"`
	// Topics are the things that can be decided for or against.
	Topics []*topic `yaml:"topics"`
	// Templates are texts that rules use by name.
	Templates map[string]string `yaml:"templates"`
	// Agents are the rules of each agent, by its name. The first rule that applies is used.
	Agents map[string][]*rule `yaml:"agents"`

	lines    map[string]int // of each value, by its path
	index    map[string][]named
	meanings map[string][]meaning // of groups and topics, by the first stem
	fixed    map[string]bool      // words of the names of topics
	chosen   map[string]bool      // the groups that topics are of
	patterns map[string]*regexp.Regexp
	idioms   []*regexp.Regexp
	base     *template.Template // with the templates of the script
	lexicon
	tableWords []string // the single words of the groups, sorted
}

// group is a thing, or a kind of thing that can be decided.
type group struct {
	Words  []string `yaml:"words"`  // words and phrases for it
	Kinds  []string `yaml:"kinds"`  // things of the kind, none of which is another
	Search []string `yaml:"search"` // what to search with at once
	// Reverse are those of the words that mean the opposite: who deletes, keeps no more.
	Reverse []string `yaml:"reverse"`
	Of      string   `yaml:"of"` // the wider group, of which to speak when nothing is known of it
}

// topic is a thing that can be decided for or against.
type topic struct {
	Name    string   `yaml:"name"`
	Group   string   `yaml:"group"`
	Also    []string `yaml:"also"`    // other words for it
	Library string   `yaml:"library"` // what to build it with
	Word    bool     `yaml:"word"`    // its name is a common word too, so it is meant with a capital alone
}

// rule gives a reply when it applies. Texts are templates over the [view].
type rule struct {
	// When is a template's condition, without braces; empty applies always.
	When string `yaml:"when"`
	// By names a mind written in Go that makes the reply, instead of the fields below: "household"
	// or "notebook", of these packages.
	By string `yaml:"by"`
	// Say is text; blank lines at its ends are cut off.
	Say string `yaml:"say"`
	// Call are tools to call.
	Call []struct {
		Tool  string         `yaml:"tool"`
		Input map[string]any `yaml:"input"` // its texts are templates; in a list, empty ones are left out
		JSON  string         `yaml:"json"`  // or a template that writes all of it, where a list is as long as what was found
	} `yaml:"call"`
	// Handoff names the agent that takes over, and why.
	Handoff struct {
		To  string `yaml:"to"`
		Why string `yaml:"why"`
	} `yaml:"handoff"`

	when, say, why *template.Template
	inputs         []any // of the calls, with a template for each text
}

// New makes the model of a script.yaml. The error contains every mistake, each with its line.
func New(name string, raw []byte, o Options) (*Model, error) {
	s, wrong := read(raw)
	if len(wrong) > 0 {
		return nil, parley.Errorf(parley.CodeInvalid, "script of %s: %w", name, errors.Join(wrong...))
	}
	return &Model{name, o.Pace, func(ctx context.Context, r seam.Request) (plan, error) {
		reply, err := s.reply(ctx, r)
		if err != nil && ctx.Err() == nil {
			err = parley.Errorf(parley.CodeModel, "%s: %w", name, err).WithHint("mend the app's script")
		}
		return plan{reply: reply}, err
	}}, nil
}

// compile prepares everything that a reply needs. wrong is called with each mistake and the path
// of its value.
func (s *script) compile(wrong func(path string, err error)) {
	for i, t := range s.Topics {
		if t == nil || t.Name == "" {
			wrong(fmt.Sprintf("topics[%d]", i), errors.New("has no name"))
		}
	}
	s.Topics = slices.DeleteFunc(s.Topics, func(t *topic) bool { return t == nil })
	s.index, s.meanings = index(s.Topics), s.table()
	s.learn()
	s.chosen, s.fixed = map[string]bool{}, map[string]bool{}
	for _, t := range s.Topics {
		s.chosen[t.Group] = true
		for _, word := range tokens(t.Name) {
			s.fixed[word.word] = true
		}
	}
	for _, g := range s.Groups {
		s.tableWords = append(s.tableWords, slices.DeleteFunc(slices.Clone(g.Words), func(w string) bool { return strings.Contains(w, " ") })...)
	}
	slices.Sort(s.tableWords)
	s.patterns = map[string]*regexp.Regexp{}
	for name, text := range s.Asks {
		re, err := regexp.Compile("(?i)" + text)
		if err != nil {
			wrong("asks."+name, err)
		}
		s.patterns[name] = re
	}
	for i, text := range s.Idioms {
		re, err := regexp.Compile("(?i)" + text)
		if err != nil {
			wrong(fmt.Sprintf("idioms[%d]", i), err)
			continue
		}
		s.idioms = append(s.idioms, re)
	}
	base := template.New("").Option("missingkey=error").Funcs(s.functions())
	s.base = base
	for name, text := range s.Templates {
		if _, err := base.New(name).Parse(text); err != nil {
			wrong("templates."+name, err)
		}
	}
	if len(s.Agents) == 0 {
		wrong("agents", errors.New("the script has rules for no agent"))
	}
	for agent, rules := range s.Agents {
		for i, r := range rules {
			path := fmt.Sprintf("agents.%s[%d]", agent, i)
			if r == nil {
				wrong(path, errors.New("the rule is empty"))
				continue
			}
			r.compile(base, fmt.Sprintf("rule %d of %s", i+1, agent), func(err error) { wrong(path, err) })
		}
	}
}

func (r *rule) compile(base *template.Template, at string, wrong func(error)) {
	parse := func(text string) *template.Template {
		t, err := base.Clone()
		if err == nil {
			t, err = t.New(at).Parse(text)
		}
		if err == nil {
			err = checkFields(t.Tree)
		}
		if err != nil {
			wrong(err)
			return nil
		}
		return t
	}
	if r.When != "" {
		r.when = parse("{{if " + r.When + "}}yes{{end}}")
	}
	r.say, r.why = parse(r.Say), parse(r.Handoff.Why)
	if r.By != "" && minds[r.By] == nil {
		wrong(fmt.Errorf("nobody is called %q; there are %s", r.By, strings.Join(slices.Sorted(maps.Keys(minds)), " and ")))
	}
	for i, c := range r.Call {
		if c.Tool == "" {
			wrong(fmt.Errorf("call %d names no tool", i+1))
		}
		if c.JSON != "" && c.Input != nil {
			wrong(fmt.Errorf("call %d has both input and json", i+1))
		}
		if c.JSON != "" {
			r.inputs = append(r.inputs, parse(c.JSON))
			continue
		}
		r.inputs = append(r.inputs, eachText(c.Input, func(text string) any { return parse(text) }))
	}
	if r.By == "" && strings.TrimSpace(r.Say) == "" && len(r.Call) == 0 && r.Handoff.To == "" {
		wrong(errors.New("the rule says nothing, calls nothing and hands to nobody"))
	}
}

// reply ends early with ctx: the rules take a moment when there is much to read.
func (s *script) reply(ctx context.Context, r seam.Request) (seam.Reply, error) {
	rules, ok := s.Agents[r.Agent]
	if !ok {
		return seam.Reply{}, fmt.Errorf("the script has no rules for the agent %q", r.Agent)
	}
	v := look(r.Agent, r.Messages)
	v.shorten()
	v.Foreign = keyword.Foreign(v.Question)
	if len(s.Groups) > 0 {
		v.Question = s.mend(v.Question)
	}
	for _, rule := range rules {
		if ctx.Err() != nil {
			return seam.Reply{}, ctx.Err()
		}
		if rule.when != nil {
			yes, err := render(rule.when, v)
			if err != nil {
				return seam.Reply{}, err
			}
			if yes == "" {
				continue
			}
		}
		if mind := minds[rule.By]; mind != nil {
			return mind(r, v)
		}
		parts, err := rule.parts(r, v)
		return seam.Reply{Parts: parts}, err
	}
	return seam.Reply{}, fmt.Errorf("no rule of %s applies", r.Agent)
}

// parts makes the reply of a rule. Tools and agents that the request does not offer are left
// out, because the turn may have to do without tools or may not hand over again. If nothing
// remains, the reply says so, with the reason if there is one.
func (r *rule) parts(req seam.Request, v view) ([]parley.Part, error) {
	var parts []parley.Part
	text, err := render(r.say, v)
	if err != nil {
		return nil, err
	}
	if text != "" {
		parts = append(parts, parley.Part{Type: parley.PartText, Text: text})
	}
	withheld := ""
	for i, c := range r.Call {
		if !slices.ContainsFunc(req.Tools, func(d parley.ToolDecl) bool { return d.Name == c.Tool }) {
			withheld = cmp.Or(withheld, v.withheld(c.Tool))
			continue
		}
		in, err := filled(r.inputs[i], v)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		if c.JSON != "" {
			var whole map[string]any
			if err := json.Unmarshal([]byte(in.(string)), &whole); err != nil {
				return nil, fmt.Errorf("the input of %s is no JSON object: %w", c.Tool, err)
			}
			raw, _ = json.Marshal(whole) // parsed values always encode
		}
		parts = append(parts, parley.Part{Type: parley.PartToolCall, Name: c.Tool, Input: raw})
	}
	if to := r.Handoff.To; to != "" && slices.ContainsFunc(req.Handoffs, func(h seam.Handoff) bool { return h.Agent == to }) {
		why, err := render(r.why, v)
		if err != nil {
			return nil, err
		}
		parts = append(parts, parley.Part{Type: parley.PartHandoff, Name: to, Text: why})
	}
	if len(parts) == 0 && withheld != "" {
		return []parley.Part{{Type: parley.PartText, Text: "That did not happen: " + withheld + "."}}, nil
	}
	if len(parts) == 0 {
		parts = []parley.Part{{Type: parley.PartText, Text: r.lacks()}}
	}
	return parts, nil
}

// noMeans is the reply when a turn may not do what a rule requires.
const noMeans = "I cannot look this up now: this turn may use no more tools or agents."

// lacks is that reply, where the rule says what it requires. Why that is missing is not known here:
// the turn may have used up its budget, or an MCP server may not have started yet.
func (r *rule) lacks() string {
	switch {
	case len(r.Call) > 0:
		return "I cannot do this now: the tool " + r.Call[0].Tool + " is not available in this turn."
	case r.Handoff.To != "":
		return "I cannot do this now: the agent " + r.Handoff.To + " is not available in this turn."
	}
	return noMeans
}

// eachText replaces the texts within a value.
func eachText(v any, f func(string) any) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case map[string]any:
		out := map[string]any{}
		for key, e := range v {
			out[key] = eachText(e, f)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = eachText(e, f)
		}
		return out
	}
	return v
}

// filled returns an input with its templates executed.
func filled(in any, v view) (any, error) {
	switch in := in.(type) {
	case *template.Template:
		return render(in, v)
	case map[string]any:
		out := map[string]any{}
		for key, e := range in {
			var err error
			if out[key], err = filled(e, v); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := []any{}
		for _, e := range in {
			one, err := filled(e, v)
			if err != nil {
				return nil, err
			}
			if one != "" {
				out = append(out, one)
			}
		}
		return out, nil
	}
	return in, nil
}

var manyLines = regexp.MustCompile(`\n[ \t]*\n(?:[ \t]*\n)+`)

// render executes a template. It removes blank lines at the ends and keeps single ones inside,
// so that a script can be laid out readably.
func render(t *template.Template, v view) (string, error) {
	w := &limited{}
	if err := t.Execute(w, v); err != nil {
		return "", err
	}
	return strings.TrimSpace(manyLines.ReplaceAllString(w.String(), "\n\n")), nil
}

type limited struct{ bytes.Buffer }

func (w *limited) Write(b []byte) (int, error) {
	if w.Len()+len(b) > maxSaid {
		return 0, fmt.Errorf("a text has more than %d bytes", maxSaid)
	}
	return w.Buffer.Write(b)
}
