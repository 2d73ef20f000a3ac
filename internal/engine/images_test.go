package engine_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// dot is a PNG of one pixel.
var dot = func() []byte {
	raw, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
	if err != nil {
		panic(err)
	}
	return raw
}()

// painter is a toolset whose tool returns an image for the model, and one that is not.
type painter struct {
	body func() []byte
}

func (painter) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "paint", Description: "Paints.", Effect: parley.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (p painter) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	body := dot
	if p.body != nil {
		body = p.body()
	}
	res := parley.ToolResult{Outcome: parley.OutcomeOK, Output: "painted"}
	if err := r.Keep(seam.File{Name: "other.png", MediaType: "image/png", Body: body}); err != nil {
		return res, err
	}
	return res, r.Keep(seam.File{Name: "dot.png", MediaType: "image/png", Body: body, Show: true})
}

func painting(model string) parley.App {
	return enginetest.App(func(a *parley.App) {
		decls, _ := painter{}.Tools(ctx)
		a.Tools = append(a.Tools, decls...)
		def := a.Agents["lead"]
		def.Tools = append(def.Tools, "paint")
		a.Agents["lead"] = def
		a.Model = model
	})
}

// eyes is a model that paints and says what it sees of that.
type eyes struct {
	saw  []string // of each request
	hang bool     // after the painting
}

func (e *eyes) model(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	var saw []string
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch p.Type {
			case parley.PartImage:
				f, err := r.Open(ctx, p.Artifact)
				if err != nil {
					return seam.Reply{}, err
				}
				again, err := r.Open(ctx, p.Artifact)
				if err != nil || !bytes.Equal(f.Body, again.Body) {
					return seam.Reply{}, fmt.Errorf("opened again: %w", err)
				}
				saw = append(saw, fmt.Sprintf("%s: %s %s %x", m.Role, f.Name, f.MediaType, f.Body[:4]))
			case parley.PartToolResult:
				saw = append(saw, p.Text)
			case parley.PartText:
				if strings.HasPrefix(p.Text, "[attached") {
					saw = append(saw, p.Text)
				}
			}
		}
	}
	e.saw = append(e.saw, strings.Join(saw, " | "))
	if e.hang && len(saw) > 0 {
		<-ctx.Done()
		return seam.Reply{}, ctx.Err()
	}
	if len(enginetest.Results(r)) > 0 {
		say("seen")
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call("paint", map[string]string{})}}, nil
}

func (e *eyes) last() string { return e.saw[len(e.saw)-1] }

const seesDot = "painted | tool: dot.png image/png 89504e47"

// TestImagesOfResults: a model that sees gets the images that a tool returned for it, in the turn in
// which it called the tool; another model reads that there is one.
func TestImagesOfResults(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{"test/seeing": seesDot, "test/blind": "painted\n[the image dot.png, which you cannot see]"} {
		synctest.Test(t, func(t *testing.T) {
			var e eyes
			r := enginetest.New(t, e.model, painting(model), enginetest.With(painter{}))
			defer r.Close()
			s := r.Session()
			if got := r.Await(r.Send(s.ID, "paint").ID); got.Status != parley.StatusCompleted || e.last() != want {
				t.Errorf("%s: got %+v, %v; it saw %q", model, got, got.Error, e.last())
			}
			var images []parley.ArtifactRef
			for _, ev := range r.Log(s.ID) {
				p, err := ev.Payload()
				if err != nil {
					t.Fatal(err)
				}
				if end, ok := p.(parley.ToolEnded); ok {
					images = end.Images
				}
			}
			if len(images) != 1 || images[0].Name != "dot.png" || images[0].Size != int64(len(dot)) {
				t.Errorf("the log has the images %+v", images)
			}
			// Later turns, forks and copies have the line about the call, as of any result.
			at := r.Log(s.ID)[len(r.Log(s.ID))-1].Seq
			forked, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{At: at})
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []parley.SessionID{s.ID, forked.ID} {
				e.saw = nil
				if got := r.Await(r.Send(id, "paint").ID); got.Status != parley.StatusCompleted || !slices.Equal(e.saw, []string{"", want}) {
					t.Errorf("%s: the next turn %+v saw %q", model, got, e.saw)
				}
			}
			// The fork has its own right to the image: its parent may be gone.
			if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
				t.Fatal(err)
			}
			e.saw = nil
			turn, err := r.Engine.Send(ctx, enginetest.User, forked.ID, parley.Send{Message: "this one", Attachments: []parley.ArtifactID{images[0].ID}})
			if err != nil {
				t.Fatal(err)
			}
			got := r.Await(turn.ID)
			if sees := strings.Join(e.saw, "\n"); model == "test/seeing" && !strings.HasPrefix(sees, "user: dot.png image/png 89504e47") || got.Status != parley.StatusCompleted {
				t.Errorf("%s: the fork's turn %+v saw %q", model, got.Error, sees)
			}
		})
	}
}

// TestImagesThroughACrash: a turn that goes on after a crash makes the same request.
func TestImagesThroughACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := eyes{hang: true}
		app := painting("test/seeing")
		r := enginetest.New(t, e.model, app, enginetest.With(painter{}))
		s := r.Session()
		turn := r.Send(s.ID, "paint")
		time.Sleep(time.Second)
		disk := r.Mem.Clone()
		r.Kill()
		later := eyes{}
		next := enginetest.Over(t, disk, r.Service, later.model, app, enginetest.With(painter{}))
		defer next.Close()
		if _, err := next.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
			t.Fatal(err)
		}
		if got := next.Await(turn.ID); got.Status != parley.StatusCompleted || e.last() != seesDot || later.last() != seesDot {
			t.Errorf("got %+v; before it saw %q, then %q", got, e.last(), later.last())
		}
		var digests []parley.Digest
		for _, ev := range next.Log(s.ID) {
			p, err := ev.Payload()
			if err != nil {
				t.Fatal(err)
			}
			if m, ok := p.(parley.ModelStarted); ok {
				digests = append(digests, m.Context)
			}
		}
		if len(digests) != 3 || digests[1] != digests[2] {
			t.Errorf("the requests are %v, want the last two alike", digests)
		}
	})
}

// TestImagesThatAreGone: a session that was imported without the images of its messages goes on in
// words, and one that names somebody else's image does not get it.
func TestImagesThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e eyes
		r := enginetest.New(t, e.model, painting("test/seeing"), enginetest.With(painter{}))
		defer r.Close()
		s := r.Session()
		r.Await(r.Send(s.ID, "paint").ID)
		var mine parley.ArtifactRef
		blobs := map[parley.Digest][]byte{}
		for _, ev := range r.Log(s.ID) {
			p, err := ev.Payload()
			if err != nil {
				t.Fatal(err)
			}
			switch p := p.(type) {
			case parley.TurnStarted:
				if blobs[p.App], err = r.Store.Blob(ctx, parley.System(), s.ID, p.App); err != nil {
					t.Fatal(err)
				}
			case parley.ToolEnded:
				mine = p.Images[0]
			}
		}
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "this one", Attachments: []parley.ArtifactID{mine.ID}})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		log := r.Log(s.ID)
		stored := func(ev parley.Event) bool { return ev.Type == "artifact.stored" }
		ben := parley.Principal{User: "ben", Org: "o"}
		for name, c := range map[string]struct {
			events []parley.Event
			body   []byte
			want   string
		}{
			"with the image":    {log, dot, "user: dot.png image/png 89504e47"},
			"without the image": {log, nil, "[attached: dot.png, which is not there any more]"},
			// The log still names the image by its id in the other session.
			"somebody else's": {renumbered(slices.DeleteFunc(slices.Clone(log), stored)), nil, "[attached: dot.png, which is not there any more]"},
		} {
			in := engine.Imported{Events: c.events, Blobs: maps.Clone(blobs)}
			if c.body != nil {
				in.Blobs[mine.SHA256] = c.body
			}
			copied, err := r.Engine.Import(ctx, ben, in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			e.saw = nil
			turn, err := r.Engine.Send(ctx, ben, copied.ID, parley.Send{Message: "paint"})
			if err != nil {
				t.Fatal(err)
			}
			for {
				info, err := r.Engine.Turn(ctx, ben, turn.ID)
				if err != nil {
					t.Fatal(err)
				}
				if info.Status == parley.StatusCompleted {
					break
				}
				time.Sleep(time.Second)
			}
			if want := c.want + " | " + seesDot; e.last() != want {
				t.Errorf("%s: it saw %q, want %q", name, e.last(), want)
			}
		}
	})
}

func renumbered(events []parley.Event) []parley.Event {
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	return events
}

// TestImagesWithSecrets: an image in which something looks like a secret is neither kept nor shown.
func TestImagesWithSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e eyes
		hidden := append(bytes.Clone(dot), "ghp_0123456789abcdefghijklmnopqrstuvwxyz"...)
		r := enginetest.New(t, e.model, painting("test/seeing"), enginetest.With(painter{body: func() []byte { return hidden }}))
		defer r.Close()
		s := r.Session()
		got := r.Await(r.Send(s.ID, "paint").ID)
		want := "painted\n(other.png could not be stored: it holds something that looks like a secret)\n(dot.png could not be stored: it holds something that looks like a secret)"
		if diff := cmp.Diff(want, e.last()); diff != "" || got.Status != parley.StatusCompleted {
			t.Errorf("got %+v, %s", got, diff)
		}
	})
}

// TestReplayOfImages: a replay has no images, and is compared without them.
func TestReplayOfImages(t *testing.T) {
	t.Parallel()
	var e eyes
	r := enginetest.New(t, e.model, painting("test/seeing"), enginetest.With(painter{}))
	defer r.Close()
	s := r.Session()
	r.Await(r.Send(s.ID, "paint").ID)
	r.Await(r.Send(s.ID, "paint").ID)
	blobs := map[parley.Digest][]byte{}
	for _, ev := range r.Log(s.ID) {
		if p, err := ev.Payload(); err == nil {
			if started, ok := p.(parley.TurnStarted); ok {
				body, err := r.Store.Blob(ctx, parley.System(), s.ID, started.App)
				if err != nil {
					t.Fatal(err)
				}
				blobs[started.App] = body
			}
		}
	}
	rec, err := replay.New(r.Log(s.ID), blobs)
	if err != nil {
		t.Fatal(err)
	}
	res, err := replay.Run(ctx, rec, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := replay.Compare(rec.Events, res.Events); d != nil {
		t.Error(d)
	}
}
