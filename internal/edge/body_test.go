package edge

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBody_has_a_rate: a body has a grace period, and then the time that its bytes have earned,
// however often they arrive. Time earned by fast bytes covers a pause.
func TestBody_has_a_rate(t *testing.T) {
	t.Parallel()
	const grace, rate = time.Second, 1000
	for name, c := range map[string]struct {
		piece  int
		every  time.Duration
		pieces int           // then the body stops
		want   time.Duration // when the server gives up
	}{
		"nothing":           {0, 0, 0, grace},
		"a trickle":         {2, 10 * time.Millisecond, 10_000, 1250 * time.Millisecond},
		"a third of it":     {30, 100 * time.Millisecond, 1000, 1390 * time.Millisecond},
		"the rate":          {100, 100 * time.Millisecond, 100, 10*time.Second + grace},
		"three times it":    {300, 100 * time.Millisecond, 100, 10*time.Second + slack*grace},
		"fast for a moment": {1000, 100 * time.Millisecond, 1, 100*time.Millisecond + 1900*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				out, in := net.Pipe()
				defer in.Close()
				var wg sync.WaitGroup
				defer wg.Wait()
				wg.Go(func() {
					for range c.pieces {
						time.Sleep(c.every)
						if _, err := in.Write(make([]byte, c.piece)); err != nil {
							return
						}
					}
				})
				o := Options{Grace: grace, UploadRate: rate}
				b := &body{ReadCloser: out, c: &conn{Conn: out, of: &conns{}}, o: o, left: grace}
				began := time.Now()
				var err error
				for buf := make([]byte, 4<<10); err == nil && time.Since(began) < time.Minute; {
					_, err = b.Read(buf)
				}
				_ = out.Close()
				if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
					t.Errorf("it ends with %v", err)
				}
				if got := time.Since(began); got.Round(10*time.Millisecond) != c.want {
					t.Errorf("given up after %s, want %s", got, c.want)
				}
			})
		})
	}
}
