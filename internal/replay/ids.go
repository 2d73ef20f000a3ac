package replay

import (
	"encoding/json"
	"sync"

	"github.com/parley-server/parley"
)

// ids holds, for each recorded call that the run has made again, the id that the call has in the
// run. Texts contain such ids: the name of a cut output's artifact does, and models, humans and
// later calls repeat it. Methods are safe for concurrent use.
type ids struct {
	mu   sync.Mutex
	here map[string]string
}

func (x *ids) learn(recorded, now parley.CallID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.here == nil {
		x.here = map[string]string{}
	}
	x.here[string(recorded)] = string(now)
}

// text returns a recorded text with the ids of the run. Ids that it does not know stay.
func (x *ids) text(s string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.here) == 0 {
		return s
	}
	return ulid.ReplaceAllStringFunc(s, func(id string) string {
		if now, ok := x.here[id]; ok {
			return now
		}
		return id
	})
}

// same reports whether a recorded input is the given one of the run.
func (x *ids) same(recorded, now json.RawMessage) bool {
	return x.text(compact(recorded)) == compact(now)
}

// translated returns v, which the recording holds, with the ids of the run.
func translated[T any](x *ids, v T) T {
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	text := x.text(string(raw))
	var now T
	if text == string(raw) || json.Unmarshal([]byte(text), &now) != nil {
		return v
	}
	return now
}
