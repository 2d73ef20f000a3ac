package storetest

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// reach uses one method, as p, on the data of w. It reports whether p saw or changed any
// of it.
type reach func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error)

// asksNobody has the methods without a principal.
var asksNobody = []string{"Join", "Tables", "Check", "Close"}

// onlySystem has the methods that refuse every user, also the owner.
var onlySystem = []string{"SpentByOrg"}

var reaches = map[string]reach{
	"Append": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		err := s.Append(ctx, p, seam.Batch{Session: w.id, Epoch: 1, After: 3, Events: steered(w.id, 4, 1)})
		return err == nil, err
	},
	"Fork": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		in := info(p, parley.SessionID("fork-of-"+p.User+p.Org))
		if p.User == "" {
			return false, nil // a session cannot be without an owner, so there is no batch to try
		}
		err := s.Fork(ctx, p, w.id, 2, seam.Batch{Session: in.ID, After: 2, Events: steered(in.ID, 3, 1), Index: seam.Index{Session: &in}})
		return err == nil, err
	},
	"Claim": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		_, err := s.Claim(ctx, p, w.id, "node-2")
		return err == nil, err
	},
	"Read": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Read(ctx, p, w.id, 0, 0)
		return len(got) > 0, err
	},
	"State": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.State(ctx, p, w.id)
		return len(got.Body) > 0, err
	},
	"Session": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Session(ctx, p, w.id)
		return got.ID == w.id, err
	},
	"Sessions": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Sessions(ctx, p, seam.SessionQuery{})
		return slices.ContainsFunc(got, func(in parley.SessionInfo) bool { return in.ID == w.id }), err
	},
	"Alias": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Alias(ctx, p, w.info.App, w.info.OutsideID)
		return got == w.id, err
	},
	"Turn": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Turn(ctx, p, w.turn.ID)
		return got.ID == w.turn.ID, err
	},
	"Turns": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		all, err := s.Turns(ctx, p, seam.TurnQuery{})
		if err != nil {
			return false, err
		}
		of, err := s.Turns(ctx, p, seam.TurnQuery{Session: w.id})
		return slices.ContainsFunc(append(all, of...), func(in parley.TurnInfo) bool { return in.ID == w.turn.ID }), err
	},
	"Key": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		a, errA := s.Key(ctx, p, w.id, w.key.Key)
		b, errB := s.Key(ctx, p, "", w.ofUser.Key)
		if errA == nil {
			errA = errB
		}
		return a.Made == w.id || b.Made == w.id, errA
	},
	"Interaction": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Interaction(ctx, p, w.interaction.ID)
		return got.ID == w.interaction.ID, err
	},
	"Interactions": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		mine := func(r seam.InteractionRow) bool { return r.ID == w.interaction.ID }
		for _, q := range []seam.InteractionQuery{{}, {Due: w.interaction.ExpiresAt.Add(time.Second)}} {
			got, err := s.Interactions(ctx, p, q)
			if err != nil || slices.ContainsFunc(got, mine) {
				return err == nil, err
			}
		}
		return false, nil
	},
	"CountInteractions": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.CountInteractions(ctx, p)
		if err != nil {
			return false, err
		}
		others, err := s.Interactions(ctx, p, seam.InteractionQuery{}) // of p's other sessions
		others = slices.DeleteFunc(others, func(r seam.InteractionRow) bool { return r.ID == w.interaction.ID })
		return got[w.interaction.Kind] > len(others), err
	},
	"Resting": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Resting(ctx, p, seam.RestQuery{App: w.info.App, Status: w.info.Status, Before: w.info.UpdatedAt.Add(time.Second)})
		return slices.ContainsFunc(got, func(in parley.SessionInfo) bool { return in.ID == w.id }), err
	},
	"Spent": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Spent(ctx, p, "0000-00-00", "9999-99-99")
		return slices.ContainsFunc(got, func(sp seam.Spend) bool { return sp.User == w.info.User && sp.Org == w.info.Org }), err
	},
	"SpentByOrg": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		_, err := s.SpentByOrg(ctx, p, w.info.Org, "2026-11-21")
		return err == nil, err
	},
	"Held": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Held(ctx, p, "")
		if err != nil || got.Sessions > 0 {
			return true, err
		}
		got, err = s.Held(ctx, p, w.id)
		return got.Sessions > 0 || got.Bytes > 0, err
	},
	"Artifact": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Artifact(ctx, p, w.artifact.ID)
		return got.ID == w.artifact.ID, err
	},
	"Artifacts": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Artifacts(ctx, p, w.id)
		return len(got) > 0, err
	},
	// Storing the same bytes does not let a user read them in another user's session.
	"PutBlob": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		if _, err := s.PutBlob(ctx, p, w.blob); err != nil && p.User != "" {
			return false, err
		}
		got, err := s.Blob(ctx, p, w.id, w.digest)
		return bytes.Equal(got, w.blob), err
	},
	"Blob": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Blob(ctx, p, w.id, w.digest)
		return bytes.Equal(got, w.blob), err
	},
	// A value that a user seals replaces nobody else's value, and each user sees their own.
	"PutSealed": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		owner := parley.Principal{User: w.info.User, Org: w.info.Org}
		mine := seam.Sealed{App: "app", Workspace: "a/b", Name: "n", Body: []byte("sealed by the owner")}
		if err := s.PutSealed(ctx, owner, mine); err != nil {
			return false, err
		}
		mine.User, mine.Org, mine.Body = owner.User, owner.Org, []byte("replaced")
		if err := s.PutSealed(ctx, p, mine); err != nil && p.User != "" {
			return false, err
		}
		got, err := s.Sealed(ctx, owner)
		return len(got) == 1 && string(got[0].Body) == "replaced", err
	},
	"Sealed": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		owner := parley.Principal{User: w.info.User, Org: w.info.Org}
		if err := s.PutSealed(ctx, owner, seam.Sealed{App: "app", Name: "n", Body: []byte("x")}); err != nil {
			return false, err
		}
		got, err := s.Sealed(ctx, p)
		return len(got) > 0, err
	},
	"PutApproval": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		owner := parley.Principal{User: w.info.User, Org: w.info.Org}
		mine := seam.Approval{App: "app", Workspace: "a/b", Name: "n", Body: []byte("decided by the owner")}
		if err := s.PutApproval(ctx, owner, mine); err != nil {
			return false, err
		}
		mine.User, mine.Org, mine.Body = owner.User, owner.Org, []byte("replaced")
		if err := s.PutApproval(ctx, p, mine); err != nil && p.User != "" {
			return false, err
		}
		got, err := s.Approvals(ctx, owner)
		return len(got) == 1 && string(got[0].Body) == "replaced", err
	},
	"Approvals": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		owner := parley.Principal{User: w.info.User, Org: w.info.Org}
		if err := s.PutApproval(ctx, owner, seam.Approval{App: "app", Name: "n", Body: []byte("x")}); err != nil {
			return false, err
		}
		got, err := s.Approvals(ctx, p)
		return len(got) > 0, err
	},
	// A row that a user puts replaces nobody else's.
	"PutRow": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		r := w.row
		r.User, r.Org, r.Body = w.info.User, w.info.Org, []byte(`"replaced"`)
		if _, err := s.PutRow(ctx, p, r); err != nil && p.User != "" {
			return false, err // the session is another's
		}
		r.Session = ""
		r.ID = "of nobody's session"
		if _, err := s.PutRow(ctx, parley.System(), r); err != nil {
			return false, err
		}
		r.Body = []byte(`"replaced again"`)
		if _, err := s.PutRow(ctx, p, r); err != nil && p.User != "" {
			return false, err
		}
		got, err := s.Row(ctx, parley.System(), r.RowName)
		if err == nil {
			err = s.DropRow(ctx, parley.System(), r.RowName, seam.AnyRow)
		}
		own := parley.Principal{User: p.User, Org: p.Org}
		if own.User != "" && !own.Owns(w.info.User, w.info.Org) {
			_ = s.DropRow(ctx, own, r.RowName, seam.AnyRow) // what it made for itself
		}
		return string(got.Body) == `"replaced again"`, err
	},
	"DropRow": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		n := w.row.RowName
		n.User, n.Org = w.info.User, w.info.Org
		if err := s.DropRow(ctx, p, n, seam.AnyRow); err != nil {
			return false, unlessNobody(p, err)
		}
		return true, nil
	},
	"Row": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		n := w.row.RowName
		n.User, n.Org = w.info.User, w.info.Org
		got, err := s.Row(ctx, p, n)
		return len(got.Body) > 0, unlessNobody(p, err)
	},
	"Rows": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		mine := func(r seam.Row) bool { return r.ID == w.row.ID }
		for _, q := range []seam.RowQuery{{}, {User: w.info.User, Org: w.info.Org}, {Session: w.id}, {Due: w.row.Due.Add(time.Second)}, {Due: w.row.Due.Add(time.Second), User: w.info.User, Org: w.info.Org}} {
			q.Kind = w.row.Kind
			got, err := s.Rows(ctx, p, q)
			if err != nil || slices.ContainsFunc(got, mine) {
				return err == nil, err
			}
		}
		return false, nil
	},
	"SaveChunks": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		if err := s.SaveChunks(ctx, p, []seam.Chunk{{Session: w.id, Epoch: 1, Call: "forged", N: 1, Text: "forged"}}); err != nil {
			return false, err
		}
		got, err := s.Chunks(ctx, parley.System(), w.id)
		return slices.ContainsFunc(got, func(c seam.Chunk) bool { return c.Call == "forged" }), err
	},
	"Chunks": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		got, err := s.Chunks(ctx, p, w.id)
		return len(got) > 0, err
	},
	"Delete": func(ctx context.Context, s seam.Store, w world, p parley.Principal) (bool, error) {
		err := s.Delete(ctx, p, w.id)
		return err == nil, err
	},
}

// unlessNobody drops the refusal of a caller that has no user, and so no rows.
func unlessNobody(p parley.Principal, err error) error {
	if p.User == "" && !p.IsSystem() && parley.CodeOf(err) == parley.CodeForbidden {
		return nil
	}
	return err
}

// isolation calls every method as another user, as the same user of another org and
// without a user. None of them may see anything. The owner and System then must, or the
// case would prove nothing.
func isolation(t *testing.T, b Body) {
	ctx := context.Background()
	for m := range reflect.TypeFor[seam.Store]().Methods() {
		if slices.Contains(asksNobody, m.Name) {
			continue
		}
		try, ok := reaches[m.Name]
		if !ok {
			t.Errorf("seam.Store has a method %s without a case that proves that others see nothing", m.Name)
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s := b.Open(t)
			w := newWorld(t, s, ann, "A")
			before := dump(t, s)
			others, owners := []parley.Principal{bob, ann2, nobody, {User: "system"}, {Org: "acme"}}, []parley.Principal{ann, parley.System()}
			if slices.Contains(onlySystem, m.Name) {
				others, owners = append(others, ann), owners[1:]
			}
			for _, p := range others {
				seen, err := try(ctx, s, w, p)
				if seen || err != nil && parley.CodeOf(err) != parley.CodeNotFound {
					t.Errorf("user %q of org %q reached it: %v (error %v), want false and not_found", p.User, p.Org, seen, err)
				}
			}
			equal(t, "everything after strangers tried", dump(t, s), before)
			for _, p := range owners {
				s := b.Open(t)
				if seen, err := try(ctx, s, newWorld(t, s, ann, "A"), p); !seen || err != nil {
					t.Errorf("user %q reached it: %v (error %v), want true", p.User, seen, err)
				}
			}
		})
	}
}
