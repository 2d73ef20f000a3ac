package engine_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/redact/redacttest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// TestSecretsNeverComeOut plants secrets of all kinds wherever a person, a model or a tool can put
// one. It looks for them in everything that is stored and everything that is shown, across a crash
// in the middle of a stream.
func TestSecretsNeverComeOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("mem/%d", seed), func(t *testing.T) {
			t.Parallel()
			m := mem.New()
			newVault(t, seed, m).live(func() seam.Store { m.SetFaults(mem.Faults{}); return m })
		})
		t.Run(fmt.Sprintf("sqlite/%d", seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			open := func() seam.Store {
				s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			v := newVault(t, seed, open())
			v.files = append(v.files, dir)
			v.live(func() seam.Store {
				_ = v.store.Close()
				return open()
			})
		})
	}
}

func (v *vault) live(reopen func() seam.Store) {
	t, ctx := v.t, v.t.Context()
	token := v.secrets[0].Text()
	made := parley.CreateSession{
		App: "test", Title: "about " + token, Key: v.secrets[7].Text(), Client: v.all, OutsideID: v.secrets[0].Value[:40] + " prk" + "_0123456789abcdef0",
		Preferences: map[string]any{"note": v.all, v.secrets[1].Text(): 1, "api_key": v.secrets[3].Value, "state": v.all},
	}
	s, created, err := v.engine.Create(ctx, enginetest.User, made)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	v.saw("session", s)
	if same, created, err := v.engine.Create(ctx, enginetest.User, made); err != nil || created || same.ID != s.ID {
		t.Errorf("the same key made %v, %v, %v", same.ID, created, err)
	}
	v.follow(s.ID)
	title := v.secrets[5].Text()
	s, err = v.engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{
		Title: &title, Preferences: map[string]any{"signature": v.all}, Pins: &[]parley.Pin{{Label: token, Text: v.all}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v.saw("session", s)

	if got := v.turn(s.ID, "work"); got.Status != parley.StatusCompleted {
		t.Fatalf("work: %+v", got)
	}
	if _, err := v.engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "other", Key: "work" + token}); parley.CodeOf(err) != parley.CodeKeyReused {
		t.Errorf("a key used again: %v", err)
	} else {
		v.saw("error", err)
	}
	if v.sent != 0 {
		t.Errorf("a tool was given a secret that the model made up %d times", v.sent)
	}
	if got := v.turn(s.ID, "break"); got.Status != parley.StatusFailed {
		t.Fatalf("break: %+v", got)
	}
	v.answer(s.ID)
	call, err := v.engine.CallTool(ctx, enginetest.User, parley.CallTool{
		App: "test", Session: s.ID, Name: "send", Input: json.RawMessage(`{"state":"` + token + `"}`), Key: token, Client: token,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.await(call.ID); got.Status != parley.StatusCompleted {
		t.Errorf("the call: %+v", got)
	}
	v.crash(s.ID, reopen)
	v.signed(s.ID)
	v.carry(s.ID)

	v.clock.Store(int64(2 * time.Hour))
	if swept, err := v.engine.Sweep(ctx, enginetest.User); err != nil || swept.Condensed == 0 {
		t.Errorf("sweep: %+v, %v", swept, err)
	}
	v.search()
}

// answer denies a permission with words that hold secrets. Sending the same answer again is
// accepted as the same.
func (v *vault) answer(id parley.SessionID) {
	v.t.Helper()
	info := v.turn(id, "ask")
	if info.Status != parley.StatusWaiting || len(info.Interactions) != 1 {
		v.t.Fatalf("ask: %+v", info)
	}
	in, err := v.engine.Interaction(v.t.Context(), enginetest.User, info.Interactions[0])
	v.saw("interaction", in)
	if err != nil {
		v.t.Fatal(err)
	}
	no := parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceDeny, Text: v.some}, Client: v.all}
	for range 2 {
		row, err := v.engine.Answer(v.t.Context(), enginetest.User, in.ID, no)
		if err != nil {
			v.t.Fatalf("answer: %v", err)
		}
		v.saw("interaction", row)
	}
	if info := v.await(info.ID); info.Status != parley.StatusCompleted {
		v.t.Errorf("after the answer: %+v", info)
	}
}

// crash stops the engine in the middle of a stream, as a crash would, and starts another.
func (v *vault) crash(id parley.SessionID, reopen func() seam.Store) {
	v.t.Helper()
	info, err := v.engine.Send(v.t.Context(), enginetest.User, id, parley.Send{Message: "hang " + v.all})
	if err != nil {
		v.t.Fatal(err)
	}
	<-v.stuck
	<-v.kept
	chunks, err := v.store.Chunks(v.t.Context(), enginetest.User, id)
	if err != nil {
		v.t.Fatal(err)
	}
	v.saw("chunks", chunks)
	v.look("open files")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	v.stop()
	_ = v.engine.Close(gone)
	_ = v.writer.Close(gone)
	v.follows.Wait()
	v.start(reopen())
	v.follow(id)
	for range 2 {
		got := v.await(info.ID)
		if got.Status != parley.StatusInterrupted {
			if got.Status != parley.StatusCompleted {
				v.t.Errorf("after the crash: %+v", got)
			}
			return
		}
		if _, err := v.engine.Resume(v.t.Context(), enginetest.User, info.ID); err != nil {
			v.t.Fatal(err)
		}
	}
}

func (v *vault) events(id parley.SessionID) []parley.Event {
	v.t.Helper()
	var all []parley.Event
	for {
		events, err := v.store.Read(v.t.Context(), enginetest.User, id, int64(len(all)), 0)
		if err != nil {
			v.t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// signed checks that the log has the provider's own data byte for byte.
func (v *vault) signed(id parley.SessionID) {
	v.t.Helper()
	n := 0
	for _, e := range v.events(id) {
		p, err := e.Payload()
		if err != nil {
			v.t.Fatal(err)
		}
		reply, ok := p.(parley.ModelReplied)
		if !ok {
			continue
		}
		n++
		got := [][]byte{reply.State, reply.Parts[0].Signature, reply.Parts[1].Signature}
		if diff := cmp.Diff([][]byte{v.sealed, v.sealed, nil}, got); diff != "" {
			v.t.Errorf("event %d, signed (-want +got):\n%s", e.Seq, diff)
		}
		if !strings.Contains(reply.Parts[1].Text, "[redacted]") {
			v.t.Errorf("event %d: the thinking is %q", e.Seq, reply.Parts[1].Text)
		}
	}
	if n < 4 {
		v.t.Errorf("there were %d replies", n)
	}
}

// carry exports the session, and imports a log and a blob that hold secrets.
func (v *vault) carry(id parley.SessionID) {
	t, ctx := v.t, v.t.Context()
	t.Helper()
	info, err := v.engine.Session(ctx, enginetest.User, id)
	if err != nil {
		t.Fatal(err)
	}
	events := v.events(id)
	var zipped bytes.Buffer
	if err := archive.Write(ctx, &zipped, archive.Source{
		Info: info,
		Events: func() iter.Seq2[parley.Event, error] {
			return func(yield func(parley.Event, error) bool) {
				for _, e := range events {
					if !yield(e, nil) {
						return
					}
				}
			}
		},
		Artifact: func(ctx context.Context, a parley.ArtifactID) ([]byte, error) {
			_, body, err := v.engine.Artifact(ctx, enginetest.User, a)
			v.saw("artifact", body)
			return body, err
		},
		Blob: func(ctx context.Context, d parley.Digest) ([]byte, error) {
			return v.store.Blob(ctx, enginetest.User, id, d)
		},
	}); err != nil {
		t.Fatal(err)
	}
	v.saw("export", unzipped(t, zipped.Bytes())...)
	in, err := archive.Read(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()), archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	// The same log, as an author who did not know about redaction would write it.
	quoted, err := json.Marshal(v.all)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range in.Events {
		if bytes.Contains(e.Data, []byte(`[redacted]`)) {
			in.Events[i] = e.WithData(bytes.Replace(e.Data, []byte(`[redacted]`), append([]byte(" "), bytes.Trim(quoted, `"`)...), 1))
		}
	}
	blobs := map[parley.Digest][]byte{}
	for d, body := range in.Blobs {
		raw := bytes.ReplaceAll(body, []byte("[redacted]"), []byte(" "+v.secrets[0].Text()))
		now := digest(raw)
		blobs[now] = raw
		for i, e := range in.Events {
			in.Events[i] = e.WithData(bytes.ReplaceAll(e.Data, []byte(d), []byte(now)))
		}
	}
	in.Blobs = blobs
	copied, err := v.engine.Import(ctx, enginetest.User, engine.Imported(in))
	if err != nil {
		t.Fatal(err)
	}
	v.saw("import", copied)
	n := 0
	for _, e := range v.events(copied.ID) {
		v.saw("import", e)
		p, err := e.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := p.(parley.ArtifactStored); ok {
			ref, body, err := v.engine.Artifact(ctx, enginetest.User, a.ID)
			if err != nil || int64(len(body)) != a.Size || ref.Size != a.Size {
				t.Errorf("artifact %s of the import: %d bytes, it says %d and %d, %v", a.Name, len(body), a.Size, ref.Size, err)
			}
			v.saw("import's artifact", body)
			n++
		}
	}
	if n == 0 {
		t.Error("the import has no artifacts")
	}
	bad := in.Events[len(in.Events)-1]
	bad.Agent = parley.AgentPath(v.secrets[0].Text())
	in.Events[len(in.Events)-1] = bad
	if _, err := v.engine.Import(ctx, enginetest.User, engine.Imported(in)); parley.CodeOf(err) != parley.CodeInvalid {
		t.Errorf("an agent named as a secret: %v", err)
	} else {
		v.saw("error", err)
	}
}

// look keeps the bytes of all files that exist.
func (v *vault) look(when string) {
	v.t.Helper()
	for _, dir := range v.files {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			defer f.Close()
			raw, err := io.ReadAll(f)
			v.saw(when+": "+name, raw)
			if strings.HasSuffix(name, ".gz") {
				v.saw(when+": "+name, gunzipped(v.t, raw))
			}
			return err
		})
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

// search ends everything and looks for secrets in all that was seen and stored.
func (v *vault) search() {
	v.t.Helper()
	v.look("open files")
	v.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := errors.Join(v.engine.Close(ctx), v.writer.Close(ctx), v.store.Close()); err != nil {
		v.t.Error(err)
	}
	v.follows.Wait()
	v.look("closed files")
	v.saw("log", v.log.Bytes())
	finder := redacttest.NewFinder(v.secrets)
	counts, redacted := map[string]int{}, map[string]bool{}
	for _, s := range v.seen {
		where, _, _ := strings.Cut(s.where, ":")
		counts[where]++
		redacted[where] = redacted[where] || bytes.Contains(s.what, []byte("[redacted]"))
		for _, leak := range finder.Leaks(s.what) {
			v.t.Errorf("%s has %s", s.where, leak)
		}
	}
	// If nothing was searched somewhere, the test would prove nothing.
	for _, where := range []string{"frame", "prompt", "turn", "session", "interaction", "chunks", "export", "import", "artifact", "open files", "closed files", "log"} {
		if counts[where] == 0 || !redacted[where] {
			v.t.Errorf("%s: %d were seen, one with something redacted: %v", where, counts[where], redacted[where])
		}
	}
}

func digest(b []byte) parley.Digest {
	sum := sha256.Sum256(b)
	return parley.Digest(hex.EncodeToString(sum[:]))
}

// unzipped returns the names and contents of the files in an archive.
func unzipped(t *testing.T, raw []byte) []any {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	var out []any
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, []byte(f.Name), body)
	}
	return out
}

func gunzipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
