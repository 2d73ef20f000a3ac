package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// drawer is a toolset whose tool keeps a picture.
type drawer struct{}

func (drawer) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "draw", Description: "Draws.", Effect: parley.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (drawer) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	err := r.Keep(seam.File{Name: "plot.png", MediaType: "image/png", Body: []byte("PNG")})
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: "drawn"}, err
}

// TestAttachments: a later message can show the model a file that a tool kept, and the model
// reads it through the request. A file of another session cannot be attached.
func TestAttachments(t *testing.T) {
	var saw string
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		last := r.Messages[len(r.Messages)-1]
		if at := slices.IndexFunc(last.Parts, func(p parley.Part) bool { return p.Artifact != "" }); at >= 0 {
			p := last.Parts[at]
			f, err := r.Open(ctx, p.Artifact)
			if err != nil {
				return seam.Reply{}, err
			}
			saw = string(p.Type) + " " + f.Name + " " + f.MediaType + " " + parley.Cut(string(f.Body), 20)
			say("seen")
			return seam.Reply{}, nil
		}
		return mailer("draw")(ctx, r, say)
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(func(a *parley.App) {
			decls, _ := drawer{}.Tools(ctx)
			a.Tools = append(a.Tools, decls...)
			def := a.Agents["lead"]
			def.Tools = append(def.Tools, "draw")
			a.Agents["lead"] = def
		})
		r := enginetest.New(t, model, app, enginetest.With(drawer{}))
		defer r.Close()
		one, other := r.Session(), r.Session()
		r.Await(r.Send(one.ID, "go").ID)
		kept, err := r.Store.Artifacts(ctx, enginetest.User, one.ID)
		if err != nil || len(kept) != 1 {
			t.Fatalf("got %v, %v", kept, err)
		}
		send := func(id parley.SessionID, what ...parley.ArtifactID) (parley.TurnInfo, error) {
			return r.Engine.Send(ctx, enginetest.User, id, parley.Send{Message: "What is it?", Attachments: what})
		}
		turn, err := send(one.ID, kept[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || saw != "image plot.png image/png PNG" {
			t.Errorf("got %+v, and the model saw %q", got, saw)
		}
		saw = ""
		again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Await(again.ID); got.Status != parley.StatusCompleted || saw != "image plot.png image/png PNG" {
			t.Errorf("a retry got %+v, and the model saw %q", got, saw)
		}
		for name, c := range map[string]struct {
			session parley.SessionID
			ids     []parley.ArtifactID
			code    parley.Code
		}{
			"of another session": {other.ID, []parley.ArtifactID{kept[0].ID}, parley.CodeNotFound},
			"unknown":            {one.ID, []parley.ArtifactID{"01KZZZZZZZZZZZZZZZZZZZZZZZ"}, parley.CodeNotFound},
			"too many":           {one.ID, make([]parley.ArtifactID, 11), parley.CodeTooLarge},
		} {
			_, err := send(c.session, c.ids...)
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != c.code || !strings.HasPrefix(e.Field, "attachments") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}
