package rule

import (
	"cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Refers says which event of a batch is the first to refer to each artifact and each blob. A fork
// between two events of one append has what the events before it refer to.
type Refers struct {
	artifacts map[parley.ArtifactID]int64
	blobs     map[parley.Digest]int64
	last      int64
}

// RefersOf returns them for a batch.
func RefersOf(b seam.Batch) Refers {
	r := Refers{artifacts: map[parley.ArtifactID]int64{}, blobs: map[parley.Digest]int64{}, last: b.After + int64(len(b.Events))}
	if len(b.Index.Artifacts)+len(b.Index.Blobs) == 0 {
		return r
	}
	blob := func(d parley.Digest, seq int64) {
		if _, ok := r.blobs[d]; !ok {
			r.blobs[d] = seq
		}
	}
	for _, ev := range b.Events {
		if ev.Type != (parley.ArtifactStored{}).EventType() && ev.Type != (parley.TurnStarted{}).EventType() {
			continue
		}
		p, err := ev.Payload()
		if err != nil {
			continue // refers to nothing that is known here
		}
		switch p := p.(type) {
		case parley.ArtifactStored:
			r.artifacts[p.ID] = ev.Seq
			blob(p.SHA256, ev.Seq)
		case parley.TurnStarted:
			blob(p.App, ev.Seq)
		}
	}
	return r
}

// Artifact is the number of the event that refers to an artifact, or of the batch's last if none does.
func (r Refers) Artifact(id parley.ArtifactID) int64 { return cmp.Or(r.artifacts[id], r.last) }

// Blob is the number of the first event that refers to a blob, or of the batch's last if none does.
func (r Refers) Blob(d parley.Digest) int64 { return cmp.Or(r.blobs[d], r.last) }
