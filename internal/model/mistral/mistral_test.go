package mistral_test

import (
	"context"
	"iter"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/mistral"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/mistral"
)

const key = "test-key-0123456789abcdef"

// info is the tests' description of the model.
var info = seam.ModelInfo{Name: "mistral/mistral-medium-latest", ContextTokens: 131_072, MaxOutputTokens: 1 << 21, Images: true, Files: true}

// brain is a function that acts as a model. It says the reply's texts word by word, and a long
// text sentence by sentence.
type brain func(ctx context.Context, r seam.Request) (seam.Reply, error)

func (b brain) Info() seam.ModelInfo { return seam.ModelInfo{Name: "brain"} }

func (b brain) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		reply, err := b(ctx, r)
		for _, p := range reply.Parts {
			end := " "
			if len(p.Text) > 4096 && strings.Contains(p.Text, ". ") {
				end = ". "
			}
			for word := range strings.SplitAfterSeq(p.Text, end) {
				d := seam.ModelDelta{Text: word}
				if p.Type == parley.PartThinking {
					d = seam.ModelDelta{Thinking: word}
				}
				if word == "" || p.Type == parley.PartHandoff {
					continue
				}
				if ctx.Err() != nil || !yield(d, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		if reply.Usage == (parley.Usage{}) {
			reply.Usage = parley.Usage{InputTokens: 11, OutputTokens: 7}
		}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

func always(parts ...parley.Part) brain {
	return func(context.Context, seam.Request) (seam.Reply, error) { return seam.Reply{Parts: parts}, nil }
}

func text(s string) parley.Part { return parley.Part{Type: parley.PartText, Text: s} }

// serve starts the simulated provider.
func serve(t testing.TB, o sim.Options) (*sim.Server, *mistral.Client) {
	t.Helper()
	o.Key = key
	s := sim.New(o)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, client(t, srv.URL)
}

func client(t testing.TB, url string) *mistral.Client {
	t.Helper()
	c, err := mistral.New(mistral.Options{Key: key, BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refusals are the errors that the provider can express.
var refusals = []*parley.Error{
	parley.Errorf(parley.CodeRateLimited, "slow down").WithRetry(3 * time.Second),
	parley.Errorf(parley.CodeUnavailable, "overloaded"),
	parley.Errorf(parley.CodeInvalid, "no such thing"),
	parley.Errorf(parley.CodeUnauthenticated, "who are you"),
	parley.Errorf(parley.CodeForbidden, "not you"),
	parley.Errorf(parley.CodeNotFound, "no such model"),
}

// behaving is a brain that behaves as a case of the suite asks.
func behaving(b modeltest.Behaviour) brain {
	return func(ctx context.Context, _ seam.Request) (seam.Reply, error) {
		switch {
		case b.Hang:
			<-ctx.Done()
			return seam.Reply{}, ctx.Err()
		case b.Err != nil:
			return seam.Reply{}, b.Err
		case b.Cut:
			r := b.Reply
			r.Parts = []parley.Part{text(r.Parts[0].Text[:len(r.Parts[0].Text)/2])}
			return r, parley.Errorf(parley.CodeUnavailable, "the stream ended")
		}
		return b.Reply, nil
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	modeltest.Run(t, modeltest.Harness{
		New: func(t *testing.T, b modeltest.Behaviour) (seam.Model, <-chan struct{}) {
			s, c := serve(t, sim.Options{Brain: behaving(b)})
			return c.Model(info), s.Closed()
		},
		Errors:   refusals,
		Thinking: true,
	})
}

// got is everything that came out of a stream.
type got struct {
	text, thinking string
	reply          *seam.Reply
	err            error
}

func read(ctx context.Context, m seam.Model, r seam.Request) got {
	var g got
	var said, thought strings.Builder
	for d, err := range m.Stream(ctx, r) {
		said.WriteString(d.Text)
		thought.WriteString(d.Thinking)
		g.reply, g.err = d.Reply, err
	}
	g.text, g.thinking = said.String(), thought.String()
	return g
}

// seen keeps the brain's requests.
type seen struct {
	mu   sync.Mutex
	list []seam.Request
}

func (s *seen) note(r seam.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, r)
}

func (s *seen) all() []seam.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seam.Request(nil), s.list...)
}
