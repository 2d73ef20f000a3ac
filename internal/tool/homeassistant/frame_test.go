package homeassistant_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/tool/homeassistant"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"id":7,"type":"result","success":true,"result":null}`:                                           "7 result",
		` [{"id":1,"type":"event","event":{}},{"id":1,"type":"event","event":{}},{"id":2,"type":"pong"}]`: "1 event, 1 event, 2 pong",
		`{"id":null,"type":"result","success":false,"error":{"code":"invalid_format","message":"x"}}`:     "0 result",
		`[]`:                                    "",
		``:                                      "!the frame is empty",
		`null`:                                  "!has no type",
		`{"id":1}`:                              "!has no type",
		`{"id":-1,"type":"pong"}`:               "!has the id -1",
		`{"type":"event"}`:                      "!has the id 0",
		`{"id":1,"type":"result"}`:              "!without an error",
		`{"id":1,"type":"ev`:                    "!",
		`{"id":"1","type":"pong"}`:              "!",
		`{"id":1,"type":"pong"} x`:              "!",
		`[{"id":1,"type":"pong"},7]`:            "!",
		`"` + strings.Repeat("x", 1000) + `"`:   "!",
		strings.Repeat("[", 100_000):            "!",
		"[" + strings.Repeat(`{},`, 9000) + "]": "!",
	} {
		got, err := homeassistant.Decode([]byte(raw))
		if s, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%.60s: got %q %v, want an error %q", raw, got, err, s)
			}
		} else if err != nil || got != want {
			t.Errorf("%.60s: got %q %v, want %q", raw, got, err, want)
		}
	}
}

// FuzzDecode: whatever comes, it is refused or it is messages that keep the
// rules.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"id":7,"type":"result","success":true,"result":null}`, `[{"id":1,"type":"event","event":{"a":{}}}]`, `[[]]`, `{"id":1e3,"type":"pong"}`, "\xff", `{"id":1,"type":"result","success":false,"error":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := homeassistant.Decode(raw)
		if err != nil && got != "" {
			t.Errorf("got %q beside %v", got, err)
		}
		for one := range strings.SplitSeq(got, ", ") {
			if strings.HasPrefix(one, "-") || one == "0 event" {
				t.Errorf("got %q", got)
			}
		}
	})
}
