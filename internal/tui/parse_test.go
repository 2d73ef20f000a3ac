package tui_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

var (
	rooms = parley.Question{Question: "Where?", Header: "Room", Options: []parley.Option{{Label: "Kitchen"}, {Label: "Bath, upper"}, {Label: "18"}}}
	many  = parley.Question{Question: "Which?", Header: "Lights", Options: []parley.Option{{Label: "Desk"}, {Label: "Shelf"}, {Label: "Door"}}, MultiSelect: true}
	free  = parley.Question{Question: "Why?", Header: "Reason"}
)

func asked(qs ...parley.Question) parley.Interaction {
	return parley.Interaction{ID: "i", Kind: parley.KindQuestion, Title: qs[0].Question, Questions: qs, Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny}}
}

func of(kind parley.InteractionKind) parley.Interaction {
	return parley.Interaction{ID: "i", Kind: kind, Title: "T", Tool: "turn_on", Input: json.RawMessage(`{"entity_id":"light.desk"}`)}
}

func TestParse(t *testing.T) {
	t.Parallel()
	answered := func(kv ...string) parley.Answer {
		a := parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{}}
		for i := 0; i < len(kv); i += 2 {
			a.Answers[kv[i]] = kv[i+1]
		}
		return a
	}
	for name, c := range map[string]struct {
		in    parley.Interaction
		given tui.Given
		want  parley.Answer
		bad   string
		hint  string
	}{
		"a label":                      {asked(rooms), tui.Given{Args: []string{"kitchen"}}, answered("Where?", "Kitchen"), "", ""},
		"a label with a comma":         {asked(rooms), tui.Given{Args: []string{"Bath, upper"}}, answered("Where?", "Bath, upper"), "", ""},
		"a number":                     {asked(rooms), tui.Given{Args: []string{"2"}}, answered("Where?", "Bath, upper"), "", ""},
		"a label that is a number":     {asked(rooms), tui.Given{Args: []string{"18"}}, answered("Where?", "18"), "", ""},
		"other words":                  {asked(rooms), tui.Given{Args: []string{"the attic, I think"}}, answered("Where?", "the attic, I think"), "", ""},
		"a number of no option":        {asked(rooms), tui.Given{Args: []string{"7"}}, parley.Answer{}, "there is no option 7", "give a number from 1 to 3; to answer with the number itself, write it in double quotes"},
		"a number as words":            {asked(rooms), tui.Given{Args: []string{`"7"`}}, answered("Where?", "7"), "", ""},
		"a number where there is none": {asked(free), tui.Given{Args: []string{"7"}}, answered("Why?", "7"), "", ""},
		"skipped":                      {asked(rooms), tui.Given{Args: []string{"deny"}, Text: "later"}, parley.Answer{Choice: parley.ChoiceDeny, Text: "later"}, "", ""},
		"several":                      {asked(many), tui.Given{Args: []string{"1, shelf,1"}}, answered("Which?", "Desk, Shelf"), "", ""},
		"several and other words":      {asked(many), tui.Given{Args: []string{"3,the lamp"}}, answered("Which?", "Door, the lamp"), "", ""},
		"a sentence":                   {asked(many), tui.Given{Args: []string{"all of them, please"}}, answered("Which?", "all of them, please"), "", ""},
		"one of several is wrong":      {asked(many), tui.Given{Args: []string{"1,9"}}, parley.Answer{}, "there is no option 9", "give a number from 1 to 3; to answer with the number itself, write it in double quotes"},
		"two questions":                {asked(rooms, free), tui.Given{Args: []string{"1", "dark"}}, answered("Where?", "Kitchen", "Why?", "dark"), "", ""},
		"one answer for two":           {asked(rooms, free), tui.Given{Args: []string{"1"}}, parley.Answer{}, "there are 1 answers for 2 questions", `give 2 answers, one for each question; 1: "Kitchen", "Bath, upper" or "18", or other words; 2: any words; deny skips it`},
		"allow":                        {of(parley.KindPermission), tui.Given{Args: []string{"allow"}}, parley.Answer{Choice: parley.ChoiceAllow}, "", ""},
		"allow with another input":     {of(parley.KindPermission), tui.Given{Args: []string{"allow"}, Input: `{ "a": 1.0 }`}, parley.Answer{Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"a":1.0}`)}, "", ""},
		"input that is none":           {of(parley.KindPermission), tui.Given{Args: []string{"allow"}, Input: `[1]`}, parley.Answer{}, "this is not a JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage", `write it like {"name": "value"}`},
		"a number allows nothing":      {of(parley.KindPermission), tui.Given{Args: []string{"1"}}, parley.Answer{}, `"1" is not a choice of this permission`, "answer with allow, allow_session or deny"},
		"nothing":                      {of(parley.KindConfirmation), tui.Given{}, parley.Answer{}, "a confirmation takes one choice, but 0 are given", "answer with allow or deny"},
		"an unknown write":             {of(parley.KindUnknown), tui.Given{Args: []string{"did_not"}}, parley.Answer{Choice: parley.ChoiceDidNot}, "", ""},
		"a secret":                     {of(parley.KindCredential), tui.Given{Args: []string{"hunter2"}}, parley.Answer{}, `"hunter2" is not a choice of this credential`, "answer with deny"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tui.Parse(c.in, c.given)
			if err != nil || c.bad != "" {
				info := parley.Info(err)
				if err == nil || err.Error() != c.bad || info.Hint != c.hint {
					t.Errorf("got %+v, %v (%s)\nwant %s (%s)", got, err, info.Hint, c.bad, c.hint)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A kind of interaction that is newer than this program, and a credential, are answered
// by a command; it says how.
func TestForms(t *testing.T) {
	t.Parallel()
	newer := of("signature")
	newer.Choices = []string{"sign", "deny"}
	secret := of(parley.KindCredential)
	secret.Choices = []string{parley.ChoiceAnswered, parley.ChoiceDeny}
	secret.Credentials = []string{"CRM", "MAIL"}
	for _, c := range []struct {
		in    parley.Interaction
		knows bool
		says  string
		given tui.Given
		want  parley.Answer
	}{
		{newer, false, `this is a "signature", which this program is too old to ask; answer with sign or deny, and --text for words`, tui.Given{Args: []string{"sign"}, Text: "Ana"}, parley.Answer{Choice: "sign", Text: "Ana"}},
		{secret, true, "without CHOICE the value is asked for at a terminal and not shown; otherwise give --credential CRM --credential MAIL, or answer with deny", tui.Given{Args: []string{"answered"}}, parley.Answer{Choice: "answered"}},
	} {
		if got := tui.Forms(c.in); got != c.says || tui.Knows(c.in.Kind) != c.knows {
			t.Errorf("%s: known %v, got %q, want %q", c.in.Kind, tui.Knows(c.in.Kind), got, c.says)
		}
		if got, err := tui.Parse(c.in, c.given); err != nil || cmp.Diff(c.want, got) != "" {
			t.Errorf("%s: got %+v, %v", c.in.Kind, got, err)
		}
	}
}

func TestSaid_of_a_client(t *testing.T) {
	t.Parallel()
	in := parley.Interaction{Kind: parley.KindClient}
	for choice, want := range map[string]string{parley.ChoiceClaimed: "Claimed by a client", parley.ChoiceDeny: "Went on without it"} {
		if got := tui.Said(in, parley.Answer{Choice: choice}); got != want {
			t.Errorf("%s: got %q, want %q", choice, got, want)
		}
	}
}
