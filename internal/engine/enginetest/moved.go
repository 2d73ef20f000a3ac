package enginetest

import (
	"bytes"
	"context"
	"iter"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/engine"
)

// Rewind takes a session back and waits until that is done, or with Preview says what it would do.
func (r *Rig) Rewind(id parley.SessionID, c parley.RewindSession) parley.RewindResult {
	r.T.Helper()
	got, err := r.Engine.Rewind(context.Background(), User, id, c)
	if err == nil && !c.Preview {
		got, err = r.Engine.AwaitRewind(context.Background(), User, id, got.ID)
	}
	if err != nil {
		r.T.Fatalf("rewind %+v: %v", c, err)
	}
	return got
}

// Exported exports a session, and reads the export as a server does that imports it.
func (r *Rig) Exported(id parley.SessionID) engine.Imported {
	r.T.Helper()
	ctx := context.Background()
	info, err := r.Engine.Session(ctx, User, id)
	if err != nil {
		r.T.Fatal(err)
	}
	var zipped bytes.Buffer
	if err := archive.Write(ctx, &zipped, archive.Source{
		Info:   info,
		Events: func() iter.Seq2[parley.Event, error] { return r.Reader.Whole(ctx, User, id, 0) },
		Artifact: func(ctx context.Context, a parley.ArtifactID) ([]byte, error) {
			_, body, err := r.Engine.Artifact(ctx, User, a)
			return body, err
		},
		Blob: func(ctx context.Context, d parley.Digest) ([]byte, error) { return r.Store.Blob(ctx, User, id, d) },
	}); err != nil {
		r.T.Fatal(err)
	}
	in, err := archive.Read(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()), archive.Limits{})
	if err != nil {
		r.T.Fatal(err)
	}
	return engine.Imported(in)
}
