package chat

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// doneMsg is what becomes of something that was asked of the server. It runs in Update.
type doneMsg func(m *model) tea.Cmd

// awayMsg says that the server does not answer, or with nil that it does again.
type awayMsg struct{ err error }

// framesMsg is what a follower received.
type framesMsg struct {
	of     *following
	frames []client.Frame
	err    error // the last: it ended
}

// ask makes a request beside the screen, and passes its result to then.
func ask[T any](m *model, do func(context.Context, *client.Client) (T, error), then func(*model, T, error) tea.Cmd) tea.Cmd {
	ctx, c := m.ctx, m.client
	return func() tea.Msg {
		v, err := do(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
		return doneMsg(func(m *model) tea.Cmd { return then(m, v, err) })
	}
}

// following is the stream of one session.
type following struct {
	session parley.SessionID
	items   chan streamed
	stop    context.CancelFunc
}

type streamed struct {
	frame client.Frame
	err   error
}

const (
	// frameEvery is how long frames are collected before they are shown, so that a fast model
	// costs no more drawing than a slow one.
	frameEvery = 30 * time.Millisecond
	// maxBatch is how many frames are shown at once, and how many wait.
	maxBatch = 1000
)

// follow begins to follow a session after an event.
func (m *model) follow(id parley.SessionID, after int64) tea.Cmd {
	ctx, stop := context.WithCancel(m.ctx)
	f := &following{session: id, items: make(chan streamed, maxBatch), stop: stop}
	m.following = f
	c := m.followed
	pump := func() tea.Msg { // as a command, so that a panic in it is caught like any other
		defer close(f.items)
		for fr, err := range c.Follow(ctx, id, after) {
			select {
			case f.items <- streamed{fr, err}:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	}
	return tea.Batch(pump, f.next)
}

// next waits for the next frames.
func (f *following) next() tea.Msg {
	it, ok := <-f.items
	if !ok {
		return nil
	}
	msg := framesMsg{of: f}
	enough := time.NewTimer(frameEvery)
	defer enough.Stop()
	for {
		if msg.err = it.err; it.err != nil {
			return msg
		}
		if msg.frames = append(msg.frames, it.frame); len(msg.frames) >= maxBatch {
			return msg
		}
		select {
		case it, ok = <-f.items:
			if !ok {
				return msg
			}
		case <-enough.C:
			return msg
		}
	}
}

// final reports whether asking again would get the same answer.
func final(err error) bool {
	switch parley.CodeOf(err) {
	case parley.CodeUnavailable, parley.CodeTimeout, parley.CodeRateLimited, parley.CodeFenced, parley.CodeInternal:
		return false
	}
	return true
}
