// Package redacttest makes secrets to plant where none may come out again.
package redacttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// Secret is one of a kind, in the words that it is found in.
type Secret struct {
	Kind   string
	Before string // what stands around it and is no secret
	Value  string // what must not come out
	After  string
}

// Text is the secret in its words.
func (s Secret) Text() string { return s.Before + s.Value + s.After }

// Known is a secret without a shape, which a redactor has to be told.
const Known = "Correct/Horse \"battery\" <staple> ÄÖ"

const (
	digits = "0123456789"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	alnum  = digits + upper + lower
)

// Secrets returns one secret of each kind, the same for the same seed. What is random in
// them is so enough to be looked for by a piece.
func Secrets(seed uint64) []Secret {
	r := rand.New(rand.NewPCG(seed, 20))
	of := func(set string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = set[r.IntN(len(set))]
		}
		// What is random has letters and digits, nearly always; these have so always.
		b[0], b[1] = digits[r.IntN(10)], set[len(set)-1-r.IntN(6)]
		return string(b)
	}
	hex := func(n int) string { return of(digits+"abcdef", n) }
	mixed := func(n int) string { return "aZ" + of(alnum, n-2) }
	segment := func(v any) string {
		raw, _ := json.Marshal(v) // plain data
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	jwt := func() string {
		return segment(map[string]string{"alg": "HS256", "typ": "JWT"})[3:] + "." + segment(map[string]string{"iss": hex(32)}) + "." + mixed(43)
	}
	pem := func() string {
		var b strings.Builder
		for range 6 {
			b.WriteString("\n" + mixed(64))
		}
		return b.String() + "\n"
	}
	discord := func() string {
		return base64.RawStdEncoding.EncodeToString([]byte("1"+of(digits, 17))) + "." + mixed(6) + "." + mixed(27)
	}
	return []Secret{
		{"anthropic", "use sk-" + "ant-", mixed(90) + "AA", " for it"},
		{"openai", "OPENAI=sk-" + "proj-", mixed(60), "."},
		{"openai, old", "(sk-", mixed(20) + "T3BlbkFJ" + mixed(20), ")"},
		{"mistral", "MISTRAL_API_KEY=", mixed(32), "\nNEXT=1"},
		{"google", "key AI" + "za", mixed(35), " is it"},
		{"aws access key", "id AK" + "IA", of(digits+upper, 16), " and"},
		{"aws secret", "aws_secret_access_key = ", mixed(20) + "/" + mixed(19), "\nregion = eu"},
		{"github", "token gh" + "p_", mixed(36), ","},
		{"github, fine-grained", "git" + "hub_pat_", mixed(22) + "_" + mixed(59), "!"},
		{"gitlab", "gl" + "pat-", mixed(20), "\n"},
		{"slack bot", "xo" + "xb-", of(digits, 12) + "-" + of(digits, 13) + "-" + mixed(24), ""},
		{"slack user", "xo" + "xp-", of(digits, 12) + "-" + of(digits, 13) + "-" + mixed(32), ";"},
		{"slack webhook", "https://hooks.slack.com/services/", "T" + of(digits+upper, 8) + "/B" + of(digits+upper, 8) + "/" + mixed(24), " posts"},
		{"stripe", "sk" + "_live_", mixed(24), " "},
		{"twilio", "SK", hex(32), " is the key"},
		{"sendgrid", "SG" + ".", mixed(22) + "." + mixed(43), "\n"},
		{"npm", "//registry/:_authToken=npm" + "_", mixed(36), "\n"},
		{"pypi", "pypi" + "-", "AgEIcHlwaS5vcmc" + mixed(120), "\n"},
		{"hugging face", "h" + "f_", mixed(34), "\n"},
		{"json web token", "jwt ey" + "J", jwt(), " end"},
		{"home assistant", "HOME_ASSISTANT_TOKEN=ey" + "J", jwt(), "\n"},
		{"private key", "-----BEGIN PRIV" + "ATE KEY-----", pem(), "-----END PRIVATE KEY-----\n"},
		{"basic auth in a URL", "https://ana:", mixed(16), "@example.com/x"},
		{"database", "postgres://app:", mixed(12) + "%40!" + mixed(4), "@db:5432/main"},
		{"bearer", "Authorization: Bearer ", mixed(40), "\r\n"},
		{"basic header", "Authorization: Basic ", base64.StdEncoding.EncodeToString([]byte("aladdin:" + mixed(13))), "\r\n"},
		{"telegram", "bot " + of(digits, 9) + ":AA", mixed(33), " chat"},
		{"discord", "Bot ", discord(), " guild"},
		{"discord webhook", "https://discord.com/api/webhooks/", of(digits, 18) + "/" + mixed(68), " posts"},
		{"home assistant webhook", "http://ha:8123/api/webhook/", hex(64), " turns it on"},
		{"azure", "AccountName=x;AccountKey=", mixed(80) + "==", ";EndpointSuffix=core.windows.net"},
		{"oauth", "{\"client_secret\": \"", mixed(30), "\"}"},
		{"our own", "prk" + "_", mixed(24), " opens"},
		{"our own key", "p" + "k_", "q2" + of("234567abcdefghijklmnopqrstuvwxyz", 24), " is the key"},
		{"password", "password: ", mixed(10), " ok"},
		{"a value of the settings", "it says ", Known, " here"},
	}
}

// Finder looks for secrets.
type Finder struct {
	at map[[start]byte][]needle
}

type needle struct {
	kind string
	form []byte
}

// start is how many bytes of a needle are looked up.
const start = 8

// NewFinder returns a finder of secrets: of each as it is, as JSON and as a URL spell
// it, and of any 24 bytes of it.
func NewFinder(secrets []Secret) *Finder {
	f := &Finder{map[[start]byte][]needle{}}
	for _, s := range secrets {
		for _, form := range forms(s.Value) {
			k := [start]byte(form)
			f.at[k] = append(f.at[k], needle{s.Kind, form})
		}
	}
	return f
}

// Leaks says what of the secrets is in text, each kind once.
func (f *Finder) Leaks(text []byte) []string {
	var out []string
	seen := map[string]bool{}
	for i := 0; i+start <= len(text); i++ {
		for _, n := range f.at[[start]byte(text[i:])] {
			if bytes.HasPrefix(text[i:], n.form) && !seen[n.kind] {
				seen[n.kind] = true
				out = append(out, fmt.Sprintf("%s: %q", n.kind, text[max(0, i-60):min(len(text), i+len(n.form)+20)]))
			}
		}
	}
	return out
}

// Leaks is that of a [Finder] that is used once.
func Leaks(text []byte, secrets []Secret) []string { return NewFinder(secrets).Leaks(text) }

func forms(v string) [][]byte {
	const piece = 24
	once, _ := json.Marshal(v) // plain text
	twice, _ := json.Marshal(string(once))
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	out := [][]byte{
		[]byte(v), bytes.Trim(once, `"`), bytes.Trim(bytes.TrimSpace(plain.Bytes()), `"`), bytes.Trim(twice, `"\`),
		[]byte(url.QueryEscape(v)), []byte(url.PathEscape(v)),
	}
	for i := 0; i+piece <= len(v); i++ {
		if p := v[i : i+piece]; !strings.Contains(p, "\n") {
			out = append(out, []byte(p))
		}
	}
	return out
}
