package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// kill ends servers with SIGKILL in the middle of 16 streams and compares the file with what
// clients had seen: every event must be there, and all text except what came since the last
// tick.
func kill(ctx context.Context, b *bench) (err error) {
	up, err := spawn(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = first(err, up.stop()) }()
	var lostTokens, lostTime []float64
	lostEvents := 0
	for round := range pick(b, 4, 10) {
		l, err := b.killOnce(ctx, up.url, round)
		if err != nil {
			return err
		}
		lostEvents += l.events
		lostTokens, lostTime = append(lostTokens, l.tokens...), append(lostTime, l.millis...)
	}
	b.line("kill: acknowledged events lost by SIGKILL", "-", count(float64(lostEvents)), "-", "0", lostEvents == 0)
	b.within("kill: streamed text lost by SIGKILL, worst of all streams", -1, quantile(lostTime, 1), millis, 250)
	b.note("which was %.0f tokens of 20 ms; the median %.0f", quantile(lostTokens, 1), median(lostTokens))
	if lostEvents > 0 {
		return errors.New("a server that was killed had shown events that are not on the disk")
	}
	return nil
}

type losses struct {
	events         int
	tokens, millis []float64 // per stream
}

func (b *bench) killOnce(ctx context.Context, upstream string, round int) (l losses, err error) {
	dir, err := b.folder("kill")
	if err != nil {
		return l, err
	}
	server, err := spawn(ctx, "parley", "-dir", dir, "-upstream", upstream)
	if err != nil {
		return l, err
	}
	t := target{name: "parley", url: server.url, session: true}
	streams := make([]*heard, pacedStreams)
	ids := make([]parley.SessionID, pacedStreams)
	var wg sync.WaitGroup
	for i := range streams {
		address, err := t.prepare(ctx)
		if err != nil {
			server.kill()
			return l, err
		}
		ids[i] = parley.SessionID(path.Base(path.Dir(address)))
		wg.Go(func() {
			// Ends with the server, so this error is expected.
			streams[i], _ = t.hear(ctx, address, plan{id: fmt.Sprintf("k%d-%d", round, i), tokens: 1000, every: pacedEvery}, nil)
		})
	}
	err = pause(ctx, time.Second+time.Duration(rand.Int64N(int64(time.Second))))
	server.kill()
	wg.Wait()
	if err != nil {
		return l, err
	}

	store, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for i, h := range streams {
		info, err := store.Session(ctx, parley.System(), ids[i])
		if err != nil {
			return l, err
		}
		l.events += int(max(0, h.last-info.Version))
		chunks, err := store.Chunks(ctx, parley.System(), ids[i])
		if err != nil {
			return l, err
		}
		var kept strings.Builder
		for _, c := range chunks {
			kept.WriteString(c.Text)
		}
		n, length := 0, 0
		for n < len(h.at) && length+len(word(n)) <= kept.Len() {
			length += len(word(n))
			n++
		}
		l.tokens = append(l.tokens, float64(len(h.at)-n))
		if n < len(h.at) { // tokens seen since the first lost one
			l.millis = append(l.millis, float64(h.at[len(h.at)-1]-h.at[n])/1e6)
		} else {
			l.millis = append(l.millis, 0)
		}
	}
	return l, nil
}
