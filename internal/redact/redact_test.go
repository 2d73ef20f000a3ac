package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/redact"
)

func TestStringTakesOutSecretsOfEachKindAndNothingElse(t *testing.T) {
	t.Parallel()
	r := redact.New()
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			got, found := r.String(p.before + p.secret + p.after)
			if want := p.before + redact.Mark + p.after; got != want || !found {
				t.Errorf("got %v %q, want %q", found, got, want)
			}
			if again, found := r.String(got); found {
				t.Errorf("redacted twice: got %q, want %q", again, got)
			}
		})
	}
}

func TestTextWithoutSecretsIsUnchanged(t *testing.T) {
	t.Parallel()
	r := redact.New("a-value-that-is-known")
	for _, text := range clean {
		if got, found := r.String(text); got != text || found {
			t.Errorf("got %q, want it unchanged: %q", got, text)
		}
		doc, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		if got, found := r.JSON(doc); string(got) != string(doc) || found {
			t.Errorf("got %s, want it unchanged: %s", got, doc)
		}
	}
}

func TestKnownValuesGoInEachSpelling(t *testing.T) {
	t.Parallel()
	for _, v := range []string{`correct "horse" <battery>/+&`, "abcdef", "sechs7!", "zwölf Wörter\nzwei Zeilen", "12345678"} {
		r := redact.New(v)
		asJSON, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		nested, err := json.Marshal(string(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{
			v, strings.Trim(string(asJSON), `"`),
			url.QueryEscape(v), url.PathEscape(v),
			base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
			base64.URLEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)),
		} {
			got, _ := r.String("<" + form + ">")
			if want := "<" + redact.Mark + ">"; got != want {
				t.Errorf("%q as %q: got %q, want %q", v, form, got, want)
			}
		}
		if got, _ := r.String(string(nested)); strings.Contains(got, strings.Trim(string(nested), `\"`)) {
			t.Errorf("%q in JSON in JSON: got %q", v, got)
		}
		for n := range 4 {
			in := base64.StdEncoding.EncodeToString([]byte("user:"[:n] + v + ":and more"))
			got, found := r.String(in)
			left := len(got) - len(redact.Mark) // two characters overlap with the neighbouring bytes
			if most := len(in) - len(v)*8/6 + 2; !found || left > most {
				t.Errorf("%q in longer base64 %q: got %q, want at most %d characters left", v, in, got, most)
			}
		}
	}
}

func TestOverlappingSecretsLeaveNothingBetween(t *testing.T) {
	t.Parallel()
	r := redact.New("secret-one", "one-secret", "secret-one-more")
	for in, want := range map[string]string{
		"a secret-one-secret b":                    "a [redacted] b",
		"secret-one-mor":                           "[redacted]-mor",
		"secret-one-more":                          "[redacted]",
		"secret-onesecret-one":                     "[redacted]",
		"secret-one secret-one":                    "[redacted] [redacted]",
		"sk-" + "ant-0123456789abcdefgsecret-one!": "sk-ant-[redacted]!",
	} {
		if got, _ := r.String(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	t.Run("short and huge values are refused", func(t *testing.T) {
		t.Parallel()
		r := redact.New("short", "", "  abc  ")
		if r.Add("a", "12345") || r.Add("b", " 12345\n") || r.Add("c", strings.Repeat("x", redact.MaxValue+1)) {
			t.Error("got true, want false")
		}
		if got, found := r.String("a short 12345 abc"); found {
			t.Errorf("got %q, want it unchanged", got)
		}
	})
	t.Run("a rotated value stays known once", func(t *testing.T) {
		t.Parallel()
		r := redact.New("forever-1", "forever-2", "forever-3")
		r.Add("k", "value-1")
		r.Add("k", "value-2")
		r.Add("k", "value-3\n")
		got, _ := r.String("value-1 value-2 value-3 forever-1 forever-2 forever-3")
		if want := "value-1 [redacted] [redacted] [redacted] [redacted] [redacted]"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		r.Remove("k")
		r.Remove("nobody")
		if got, found := r.String("value-2 value-3"); found {
			t.Errorf("got %q, want it unchanged", got)
		}
	})
	t.Run("while others redact", func(t *testing.T) {
		t.Parallel()
		r := redact.New()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for j := range 20 {
					v := fmt.Sprintf("value-%d-%d.", i, j)
					r.Add(fmt.Sprint(i), v)
					if got, _ := r.String(v); got != redact.Mark {
						t.Errorf("got %q", got)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r := redact.New(`kn"own`, "known-value")
	for name, c := range map[string]struct{ in, want string }{
		"the rest is untouched": {
			`{ "a":1.50e+3, "\u0062" :[true,null , "x known-value é\u00e9\/\n"],"z":-0 }`,
			`{ "a":1.50e+3, "\u0062" :[true,null , "x [redacted] é\u00e9\/\n"],"z":-0 }`,
		},
		"keys":                     {`{"known-value":1}`, `{"[redacted]":1}`},
		"escaped":                  {`["a\"kn\"own\""]`, `["a\"[redacted]\""]`},
		"spelt in code points":     {`["\u006bnown-\u0076alue\ud83d\ude00"]`, `["[redacted]\ud83d\ude00"]`},
		"behind an escape":         {`["a\nsk-` + `ant-0123456789abcdefghij\tb"]`, `["a\nsk-ant-[redacted]\tb"]`},
		"by its key":               {`{"password":"a b c d 1","n":{"dbPassword" : "hunter2"}}`, `{"password":"a b c d 1","n":{"dbPassword" : "[redacted]"}}`},
		"an address by its key":    {`{"password":"https://vault.example/v1/db2"}`, `{"password":"https://vault.example/v1/db2"}`},
		"a placeholder by its key": {`{"password":"$DB_PASSWORD2"}`, `{"password":"$DB_PASSWORD2"}`},
		"schema":                   {`{"password":{"type":"string","minLength":8}}`, `{"password":{"type":"string","minLength":8}}`},
		"text in it":               {`"{\"password\":\"hunter22\"}"`, `"{\"password\":\"[redacted]\"}"`},
		"several":                  {`["known-value","known-value known-value"]`, `["[redacted]","[redacted] [redacted]"]`},
		"shape in opaque":          {`{"signature":"sk-` + `ant-0123456789abcdefghij"}`, `{"signature":"sk-` + `ant-0123456789abcdefghij"}`},
		"known in opaque":          {`{"a":"known-value","signature" : "AAknown-valueBB" ,"b":2}`, `{"a":"[redacted]","signature" : null ,"b":2}`},
		"known deep in opaque":     {`[{"state":{"x":[1,{"y":"\u006bnown-value"}]},"b":2}]`, `[{"state":null,"b":2}]`},
		"opaque clean":             {`{"state":{"password":"hunter2"},"password":"hunter2"}`, `{"state":{"password":"hunter2"},"password":"[redacted]"}`},
		"opaque scalars":           {`{"state":12,"signature":null,"state":true,"x":"known-value"}`, `{"state":12,"signature":null,"state":true,"x":"[redacted]"}`},
		"opaque elsewhere":         {`{"a":{"state":"sk-` + `ant-0123456789abcdefghij"}}`, `{"a":{"state":"sk-ant-[redacted]"}}`},
		"opaque in parts":          {`{"parts":[{"signature":"sk-` + `ant-0123456789abcdefghij","input":{"signature":"sk-` + `ant-0123456789abcdefghij"}}]}`, `{"parts":[{"signature":"sk-` + `ant-0123456789abcdefghij","input":{"signature":"sk-ant-[redacted]"}}]}`},
		"opaque after parts":       {`{"parts":[{"n":{}}],"a":{"signature":"sk-` + `ant-0123456789abcdefghij"},"state":"sk-` + `ant-0123456789abcdefghij"}`, `{"parts":[{"n":{}}],"a":{"signature":"sk-ant-[redacted]"},"state":"sk-` + `ant-0123456789abcdefghij"}`},
		"opaque anywhere":          {`{"a":[{"b":{"c":{"d":{"e":{"anywhere":"sk-` + `ant-0123456789abcdefghij"}}}}}}]}`, `{"a":[{"b":{"c":{"d":{"e":{"anywhere":"sk-` + `ant-0123456789abcdefghij"}}}}}}]}`},
		"opaque is no value":       {`["state","known-value"]`, `["state","[redacted]"]`},
		"not JSON":                 {`oh: known-value, "x"`, `oh: [redacted], "x"`},
		"cut off":                  {`{"a":"known-value`, `{"a":"[redacted]`},
		"empty":                    {``, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := []byte(c.in)
			got, found := r.JSON(in, "signature", "state", "parts.signature", "*.anywhere")
			if diff := cmp.Diff(c.want, string(got)); diff != "" || found != (c.in != c.want) {
				t.Errorf("found %v, (-want +got):\n%s", found, diff)
			}
			if string(in) != c.in {
				t.Errorf("the input was changed to %s", in)
			}
		})
	}
}

func TestJSONTakesOutSecretsOfEachKind(t *testing.T) {
	t.Parallel()
	r := redact.New()
	for _, p := range planted {
		in, err := json.Marshal([]any{p.before + p.secret + p.after, 1})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := r.JSON(in)
		var got []any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Errorf("%s: %v in %s", p.name, err, out)
		}
		want, _ := r.String(p.before + p.secret + p.after)
		if diff := cmp.Diff([]any{want, 1.0}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.name, diff)
		}
	}
}

// TestManyBeginningsTakeLinearTime: in a text of many secret-like beginnings, none may cause a
// scan to the end of the text.
func TestManyBeginningsTakeLinearTime(t *testing.T) {
	t.Parallel()
	r := redact.New()
	for _, piece := range []string{
		"-----BEGIN PRIV" + "ATE KEY-----AAAAAAAAAAAAAAAAAAAA", "-sk-" + "ant-0123456789abcdefghij", ".eyJ", "://a:", "password:",
	} {
		in := strings.Repeat(piece, 1<<20/len(piece))
		s := r.NewStream()
		out := s.Write(in) + s.Close()
		if got, _ := r.String(in); got != out {
			t.Errorf("%q repeated: stream differs from String", piece)
		}
	}
}
