package auth

import (
	"container/list"
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// wrongAtOnce is how many wrong keys are answered without a pause: for a person who
	// mistypes, or a program that starts with an old key on several connections.
	wrongAtOnce = 10
	// wrongEvery is how often another one is answered without a pause from then on.
	wrongEvery = 6 * time.Second
	// maxWrong limits the entries, about 200 bytes each. The one that was quiet longest
	// is dropped first.
	maxWrong = 4096
)

// wrongs counts wrong keys, by the address they come from and by their beginning. It
// slows down guessing and repeated attempts, but never a right key: a client that shares
// an address with a guesser, for example behind a proxy, is not locked out.
type wrongs struct {
	mu    sync.Mutex
	order list.List // of *wrong, the longest quiet first
	by    map[string]*list.Element
}

type wrong struct {
	by   string
	full time.Time // when none counts any more
}

// count adds a wrong key and returns how long to wait before the next, 0 for not at all.
func (w *wrongs) count(by string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]*list.Element{}
	}
	e := w.by[by]
	if e == nil {
		if w.order.Len() >= maxWrong {
			old := w.order.Remove(w.order.Front()).(*wrong)
			delete(w.by, old.by)
		}
		e = w.order.PushBack(&wrong{by: by})
		w.by[by] = e
	}
	w.order.MoveToBack(e)
	c := e.Value.(*wrong)
	if c.full.Before(now) {
		c.full = now
	}
	if left := c.full.Sub(now) - (wrongAtOnce-1)*wrongEvery; left > 0 {
		return left // not counted: repeated attempts must not make the wait longer and longer
	}
	c.full = c.full.Add(wrongEvery)
	return 0
}

// refused is the answer to a wrong key that r shows.
func (d *door) refused(r *http.Request, shown string, err *parley.Error) error {
	now := d.o.Now()
	wait := d.wrong.count("from "+Network(r), now)
	if strings.HasPrefix(shown, keyPrefix) { // other credentials begin alike by themselves
		wait = max(wait, d.wrong.count("key "+parley.Cut(shown, len(keyPrefix)+4), now))
	}
	if wait == 0 {
		return err
	}
	return parley.Errorf(parley.CodeRateLimited, "too many wrong keys came from this address, or this key was tried too often").
		WithHint("a right key is let in at once; `parley keys list` shows those that are").WithRetry(wait)
}

type networkKey struct{}

// NetworkOf is the [Network] of the request whose credential is verified in ctx, or "".
func NetworkOf(ctx context.Context) string {
	n, _ := ctx.Value(networkKey{}).(string)
	return n
}

// Network is where a request comes from: an address, or of the sixth version what one
// customer usually has of them.
func Network(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
