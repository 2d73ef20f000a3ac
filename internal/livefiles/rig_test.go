package livefiles_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// clerk does what the message says: "look 3" looks three times, one after the other.
func clerk(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	tool, times, _ := strings.Cut(enginetest.Last(r), " ")
	n, _ := strconv.Atoi(times)
	switch done := len(enginetest.Results(r)); {
	case tool == "fail":
		return seam.Reply{}, errors.New("no")
	case tool == "plot" && done == 0:
		return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "plot"})}}, nil
	case done < n:
		say("Wait. ")
		return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": "<" + strconv.Itoa(done) + ">"})}}, nil
	}
	say("It is done & well.")
	return seam.Reply{}, nil
}

// asking makes an app ask for permission for each mail.
func asking(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "mail"}, {Verdict: parley.Allow}}
	a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 8
}

// rig is an engine whose sessions have files.
type rig struct {
	*enginetest.Rig
	data  string
	kept  *archive.Folder
	files *livefiles.Files

	failed, behind atomic.Int64
}

// live runs f in a bubble of fake time.
func live(t *testing.T, model enginetest.Model, app parley.App, f func(t *testing.T, r *rig), change ...func(*engine.Options)) {
	t.Helper()
	data, shelves := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{data: data}
		r.kept = archive.NewFolder(datafolder.New(shelves, nil))
		change = append(change, func(o *engine.Options) { o.Archive = shelf{r.kept, r} })
		r.Rig = enginetest.New(t, model, app, change...)
		r.start()
		defer func() {
			r.Rig.Close()
			r.files.Close(t.Context())
		}()
		f(t, r)
	})
}

// shelf is an archive that tells the files which sessions the engine deletes.
type shelf struct {
	*archive.Folder
	r *rig
}

func (s shelf) Drop(ctx context.Context, id parley.SessionID) error {
	s.r.files.Forget(id)
	return s.Folder.Drop(ctx, id)
}

func (r *rig) options() livefiles.Options {
	return livefiles.Options{
		Data: datafolder.New(r.data, nil), Archived: r.kept.Blob, Log: r.Reader, Store: r.Store, Apps: map[string]bool{"test": true},
		Failed: func() { r.failed.Add(1) }, Behind: func(n int) { r.behind.Store(int64(n)) },
	}
}

func (r *rig) start() { r.files = livefiles.Start(r.options()) }

// settled waits until the files of a quiet session are complete.
func settled() { time.Sleep(2*time.Second + time.Millisecond); synctest.Wait() }

// export returns the files that an export of the sessions has.
func export(t testing.TB, store seam.Store, kept *archive.Folder, ids ...parley.SessionID) map[string]string {
	t.Helper()
	ctx, all := context.Background(), map[string]string{}
	w, reader := eventlog.New(store, redact.New(), eventlog.Options{Archive: kept})
	defer func() { _ = w.Close(ctx) }()
	for _, id := range ids {
		info, err := store.Session(ctx, parley.System(), id)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		err = archive.Write(ctx, &b, archive.Source{
			Info:   info,
			Events: func() iter.Seq2[parley.Event, error] { return reader.Whole(ctx, parley.System(), id, 0) },
			Artifact: func(ctx context.Context, id parley.ArtifactID) ([]byte, error) {
				a, err := store.Artifact(ctx, parley.System(), id)
				if err != nil {
					return nil, err
				}
				body, err := store.Blob(ctx, parley.System(), a.Session, a.SHA256)
				if parley.CodeOf(err) == parley.CodeNotFound {
					return kept.Blob(ctx, a.Session, a.SHA256)
				}
				return body, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case f.Name == "events.ndjson": // only exports have it
			case strings.HasPrefix(f.Name, "artifacts/"):
				all[f.Name] = string(body)
			default:
				all["sessions/"+string(id)+"/"+f.Name] = string(body)
			}
		}
	}
	return all
}

// onDisk returns the files of a data folder and checks their modes.
func onDisk(t testing.TB, data string) map[string]string {
	t.Helper()
	all, err := seen(t, data)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// seen is onDisk for a folder that may be written meanwhile. The error is that a file is gone.
func seen(t testing.TB, data string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == data {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(data, path)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
		}
		if d.IsDir() || name == "sessions/.form" || d.Name() == ".fold" {
			return nil
		}
		body, err := os.ReadFile(path)
		all[filepath.ToSlash(name)] = string(body)
		return err
	})
	return all, err
}

// same compares the files on disk with an export of the sessions.
func (r *rig) same(when string, ids ...parley.SessionID) {
	r.T.Helper()
	if diff := cmp.Diff(export(r.T, r.Store, r.kept, ids...), onDisk(r.T, r.data)); diff != "" {
		r.T.Errorf("%s: the files (-export +disk):\n%s", when, diff)
	}
}

// afterCrash starts over a copy of the disk and of the log as they are now. It returns when the files have
// caught up.
func (r *rig) afterCrash(change ...func(data string)) (data string, store *mem.Store) {
	r.T.Helper()
	data = r.T.TempDir()
	if err := os.CopyFS(data, os.DirFS(r.data)); err != nil {
		r.T.Fatal(err)
	}
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error { // CopyFS sets its own modes
		mode := fs.FileMode(0o600)
		if err == nil && d.IsDir() {
			mode = 0o700
		}
		return errors.Join(err, os.Chmod(path, mode))
	})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, f := range change {
		f(data)
	}
	store = r.Mem.Clone()
	w, reader := eventlog.New(store, redact.New(), eventlog.Options{Archive: r.kept})
	o := r.options()
	o.Data, o.Store, o.Log = datafolder.New(data, nil), store, reader
	f := livefiles.Start(o)
	synctest.Wait()
	_ = w.Close(r.T.Context())
	f.Close(r.T.Context())
	return data, store
}
