package wire_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// FuzzCursor: any cursor from a client is read as exactly what it says, or refused.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"0", "12", "-1", "01", "1e3", "9223372036854775808", "a:1,b:2", "a", "a:", ":1", "a:1,a:2", " 1", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Last-Event-Id"] = []string{text}
		n, err := wire.Cursor(r)
		switch {
		case err != nil && parley.CodeOf(err) != parley.CodeInvalid:
			t.Errorf("Cursor(%q): %v", text, err)
		case err == nil && text != "" && strconv.FormatInt(n, 10) != text:
			t.Errorf("Cursor(%q) = %d", text, n)
		}
		places, err := wire.ParsePlaces("sessions", text)
		if err != nil {
			if parley.CodeOf(err) != parley.CodeInvalid {
				t.Errorf("ParsePlaces(%q): %v", text, err)
			}
			return
		}
		var back []string
		for i, item := range strings.Split(text, ",") {
			if strings.Contains(item, ":") {
				item = string(places[i].Session) + ":" + strconv.FormatInt(places[i].After, 10)
			} else {
				item = string(places[i].Session)
			}
			back = append(back, item)
		}
		if strings.Join(back, ",") != text || len(places) > wire.MaxSessions {
			t.Errorf("ParsePlaces(%q) = %v", text, places)
		}
	})
}
