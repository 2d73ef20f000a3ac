package storetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// sealed checks that there is one sealed value for each user, app, workspace and name. A later
// value replaces it, and an empty one removes it.
func sealed(t *testing.T, s seam.Store) { owned(t, s.PutSealed, s.Sealed) }

// approvals checks the same of approvals, which are kept apart from sealed values.
func approvals(t *testing.T, s seam.Store) {
	ctx := context.Background()
	must(t, s.PutSealed(ctx, ann, seam.Sealed{App: "a", Name: "n", Body: []byte("sealed")}))
	owned(t, func(ctx context.Context, p parley.Principal, v seam.Sealed) error {
		return s.PutApproval(ctx, p, seam.Approval(v))
	}, func(ctx context.Context, p parley.Principal) (list []seam.Sealed, err error) {
		rows, err := s.Approvals(ctx, p)
		for _, a := range rows {
			list = append(list, seam.Sealed(a))
		}
		return list, err
	})
	if got, err := s.Sealed(ctx, ann); err != nil || len(got) != 1 || string(got[0].Body) != "sealed" {
		t.Errorf("what is sealed: %v, %v", got, err)
	}
}

func owned(t *testing.T, store func(context.Context, parley.Principal, seam.Sealed) error, list func(context.Context, parley.Principal) ([]seam.Sealed, error)) {
	ctx := context.Background()
	put := func(p parley.Principal, app, workspace, name, body string) {
		t.Helper()
		if err := store(ctx, p, seam.Sealed{App: app, Workspace: workspace, Name: name, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	put(ann, "a", "", "n", "1")
	put(ann, "a", "", "n", "2\x00\xff")
	put(ann, "a", "w", "n", "3")
	put(ann, "b", "", "n", "4")
	put(ann, "b", "", "m", "gone")
	put(ann, "b", "", "m", "")
	put(ann, "b", "", "never there", "")
	put(ann2, "a", "", "n", "5")
	put(bob, "a", "", "n", "6")
	for _, c := range []struct {
		p    parley.Principal
		want []string
	}{
		{ann, []string{"a//n 2\x00\xff", "a/w/n 3", "b//n 4"}}, {ann2, []string{"a//n 5"}}, {bob, []string{"a//n 6"}}, {nobody, nil},
	} {
		got, err := list(ctx, c.p)
		if err != nil {
			t.Fatal(err)
		}
		var is []string
		for _, v := range got {
			if v.User != c.p.User || v.Org != c.p.Org {
				t.Errorf("got %s of %s", v.User, v.Org)
			}
			is = append(is, v.App+"/"+v.Workspace+"/"+v.Name+" "+string(v.Body))
		}
		if diff := cmp.Diff(c.want, is); diff != "" {
			t.Errorf("%v: %s", c.p, diff)
		}
	}
	if all, err := list(ctx, parley.System()); err != nil || len(all) != 5 {
		t.Errorf("got %d, %v", len(all), err)
	}
	if err := store(ctx, nobody, seam.Sealed{Name: "n", Body: []byte("x")}); parley.CodeOf(err) != parley.CodeForbidden {
		t.Errorf("without an owner: %v", err)
	}
}
