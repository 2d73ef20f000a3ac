package engine_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// priced is a model whose calls cost usd dollars each.
func priced(usd float64) enginetest.Model {
	return func(_ context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
		say("hm")
		return seam.Reply{Usage: parley.Usage{InputTokens: 10, OutputTokens: 5, USD: usd}}, nil
	}
}

func spentOn(t *testing.T, r *enginetest.Rig, from, to string) (usd float64, calls int64) {
	t.Helper()
	rows, err := r.Store.Spent(ctx, enginetest.User, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		usd += row.Usage.USD
		calls += row.Calls
	}
	return usd, calls
}

// TestSpent: the reservation of a call is replaced by its actual cost, on the day on which
// the call began. This also holds if the call failed or was cut off by the end of the process.
func TestSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			switch enginetest.Last(r) {
			case "fail":
				return seam.Reply{}, parley.Errorf(parley.CodeForbidden, "no")
			case "hang":
				say("so far")
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return seam.Reply{}, ctx.Err()
			}
			return priced(0.25)(ctx, r, say)
		}
		r := enginetest.New(t, model, enginetest.App())
		s := r.Session()
		r.Await(r.Send(s.ID, "one").ID)
		r.Await(r.Send(s.ID, "two").ID)
		r.Await(r.Send(s.ID, "fail").ID)
		today := time.Now().UTC().Format(time.DateOnly)
		if usd, calls := spentOn(t, r, today, today); math.Abs(usd-0.5) > 1e-9 || calls != 3 {
			t.Errorf("got $%g for %d calls, want $0.5 for 3", usd, calls)
		}
		turn := r.Send(s.ID, "hang")
		synctest.Wait()
		before, _ := r.Engine.Turn(ctx, enginetest.User, turn.ID)
		if before.Status != parley.StatusStreaming {
			t.Fatalf("got %s", before.Status)
		}
		store := r.Mem.Clone()
		r.Kill()
		r = enginetest.Over(t, store, r.Service, priced(0.25), enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto }))
		defer r.Close()
		if _, err := r.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.Await(turn.ID)
		if usd, calls := spentOn(t, r, today, today); math.Abs(usd-0.75) > 1e-9 || calls != 5 {
			t.Errorf("got $%g for %d calls, want $0.75 for 5", usd, calls)
		}
	})
}

// TestQuota: a user's spending in a day ends below the quota, whatever sessions run at once. The
// next day the user may spend again. Other users have quotas of their own.
func TestQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, priced(1), enginetest.App(), func(o *engine.Options) {
			o.Models = dear{o.Models}
			o.Runtimes = enginetest.Loop(o.Models)
			o.Limits = engine.Limits{USDPerDay: 5, UserUSDPerDay: map[string]float64{"rich": 100}}
		})
		defer r.Close()
		time.Sleep(time.Hour)
		var turns []parley.TurnID
		for range 10 {
			got, err := r.Engine.Send(ctx, enginetest.User, r.Session().ID, parley.Send{Message: "go"})
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, got.ID)
		}
		done, refused := 0, 0
		for _, id := range turns {
			switch got := r.Await(id); {
			case got.Status == parley.StatusCompleted:
				done++
			case got.Status == parley.StatusFailed && got.Error.Code == parley.CodeQuota && got.Error.RetryAfterMS == (23*time.Hour).Milliseconds():
				refused++
			default:
				t.Errorf("got %s %+v", got.Status, got.Error)
			}
		}
		// Each turn reserves more than $1, and then costs $1.
		if usd, _ := spentOn(t, r, "0000-00-00", "9999-99-99"); done == 0 || done+refused != 10 || usd > 5 || int(usd) != done {
			t.Errorf("%d were done and %d refused for $%g", done, refused, usd)
		}
		for range 5 {
			r.Await(mustSend(t, r, "more").ID)
		}
		rich := parley.Principal{User: "rich", Org: "acme"}
		s, _, err := r.Engine.Create(ctx, rich, parley.CreateSession{App: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Send(ctx, rich, s.ID, parley.Send{Message: "go"}); err != nil {
			t.Errorf("another user gets %v", err)
		}
		time.Sleep(24 * time.Hour)
		if got := r.Await(mustSend(t, r, "a new day").ID); got.Status != parley.StatusCompleted {
			t.Errorf("the next day: %s %+v", got.Status, got.Error)
		}
	})
}

// mustSend sends a message in a new session. An error fails the test.
func mustSend(t *testing.T, r *enginetest.Rig, message string) parley.TurnInfo {
	t.Helper()
	s := r.Session()
	got, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: message})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// dear gives every model a price.
type dear struct{ seam.Models }

func (d dear) Model(name string) (seam.Model, error) {
	m, err := d.Models.Model(name)
	return dearModel{m}, err
}

type dearModel struct{ seam.Model }

func (m dearModel) Info() seam.ModelInfo {
	i := m.Model.Info()
	i.OutputUSD, i.MaxOutputTokens = 1200, 1000 // $1.2 for the longest reply
	return i
}

// TestQuotaWantsPrices: a model without a price does not get round a quota.
func TestQuotaWantsPrices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		info seam.ModelInfo
		want parley.TurnStatus
	}{
		"no price":     {seam.ModelInfo{}, parley.StatusFailed},
		"free by list": {seam.ModelInfo{PricedAt: "settings"}, parley.StatusCompleted},
		"a script":     {seam.ModelInfo{Scripted: true}, parley.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
					o.Models = listed{o.Models, c.info}
					o.Runtimes = enginetest.Loop(o.Models)
					o.Limits.USDPerDay = 1
				})
				defer r.Close()
				got := r.Await(r.Send(r.Session().ID, "go").ID)
				if got.Status != c.want || got.Error != nil && got.Error.Code != parley.CodeForbidden {
					t.Errorf("got %s %+v", got.Status, got.Error)
				}
			})
		})
	}
}

// listed replaces Scripted and PricedAt of every model.
type listed struct {
	seam.Models
	info seam.ModelInfo
}

func (l listed) Model(name string) (seam.Model, error) {
	m, err := l.Models.Model(name)
	return listedModel{m, l.info}, err
}

type listedModel struct {
	seam.Model
	info seam.ModelInfo
}

func (m listedModel) Info() seam.ModelInfo {
	i := m.Model.Info()
	i.Scripted, i.PricedAt = m.info.Scripted, m.info.PricedAt
	return i
}

func TestTurnsPerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) { o.Limits.TurnsPerMinute = 3 })
		defer r.Close()
		s := r.Session()
		send := func() error {
			got, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go"})
			if err == nil {
				r.Await(got.ID)
			}
			return err
		}
		for range 3 {
			if err := send(); err != nil {
				t.Fatal(err)
			}
		}
		e, ok := errors.AsType[*parley.Error](send())
		if !ok || e.Code != parley.CodeRateLimited || e.RetryAfter != 20*time.Second {
			t.Fatalf("the fourth gets %#v", e)
		}
		time.Sleep(e.RetryAfter)
		if err := send(); err != nil {
			t.Errorf("after waiting as told: %v", err)
		}
	})
}

// TestTurnsPerMinute_of_refused_messages: a message that is refused begins no turn, so it does not count, however it
// is refused and however many come at once. A message that is being decided about does count.
func TestTurnsPerMinute_of_refused_messages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, goOn := make(chan struct{}, 3), make(chan struct{})
		r := enginetest.New(t, func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
			begun <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			say("done")
			return seam.Reply{}, nil
		}, enginetest.App(), func(o *engine.Options) { o.Limits.TurnsPerMinute, o.Limits.OrgTurnsPerMinute = 3, 3 })
		defer r.Close()
		s := r.Session()
		send := func(id parley.SessionID, c parley.Send) error {
			c.Message = "go"
			_, err := r.Engine.Send(ctx, enginetest.User, id, c)
			return err
		}
		if err := send(s.ID, parley.Send{}); err != nil {
			t.Fatal(err)
		}
		<-begun
		var hands sync.WaitGroup
		for range 20 {
			hands.Go(func() {
				if err := send(s.ID, parley.Send{}); parley.CodeOf(err) != parley.CodeBusy && parley.CodeOf(err) != parley.CodeRateLimited {
					t.Errorf("got %v", err)
				}
			})
		}
		hands.Wait()
		for range 10 {
			if err := send(s.ID, parley.Send{}); parley.CodeOf(err) != parley.CodeBusy {
				t.Fatalf("one that is refused: %v", err)
			}
			if err := send(s.ID, parley.Send{ExpectedVersion: 1}); parley.CodeOf(err) != parley.CodeConflict {
				t.Fatalf("one that is out of date: %v", err)
			}
			time.Sleep(time.Millisecond) // at another time than what it takes back
		}
		for i := range 3 {
			switch err := send(r.Session().ID, parley.Send{}); {
			case i == 2 && parley.CodeOf(err) != parley.CodeRateLimited, i < 2 && err != nil:
				t.Errorf("turn %d: %v", i+2, err)
			}
		}
		close(goOn)
	})
}

// TestQuota_of_an_organisation: all users of an organisation together stay below its quota, whatever
// runs at once; users of another, and without one, have nothing to do with it.
func TestQuota_of_an_organisation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, priced(1), enginetest.App(), func(o *engine.Options) {
			o.Models = dear{o.Models}
			o.Runtimes = enginetest.Loop(o.Models)
			o.Limits = engine.Limits{OrgUSDPerDay: 5, OrgsUSDPerDay: map[string]float64{"large": 100}}
		})
		defer r.Close()
		turn := func(p parley.Principal) (parley.TurnID, error) {
			s, _, err := r.Engine.Create(ctx, p, parley.CreateSession{App: "test"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Engine.Send(ctx, p, s.ID, parley.Send{Message: "go"})
			return got.ID, err
		}
		users := []parley.Principal{{User: "a", Org: "small"}, {User: "b", Org: "small"}, {User: "c", Org: "small"}}
		begun := map[parley.TurnID]parley.Principal{}
		for i := range 12 {
			id, err := turn(users[i%3])
			if err != nil {
				t.Fatal(err)
			}
			begun[id] = users[i%3]
		}
		done := 0
		for id, p := range begun {
			got, err := r.Engine.Await(ctx, p, id, time.Hour)
			switch {
			case err != nil:
				t.Error(err)
			case got.Status == parley.StatusCompleted:
				done++
			case got.Error.Code != parley.CodeQuota:
				t.Errorf("got %s %+v", got.Status, got.Error)
			}
		}
		usd, err := r.Mem.SpentByOrg(ctx, parley.System(), "small", time.Now().UTC().Format(time.DateOnly))
		if err != nil || done == 0 || usd > 5 || int(usd) != done {
			t.Errorf("%d were done for $%g, %v", done, usd, err)
		}
		for i := 0; usd < 5 && i < 10; i++ { // until nothing is left
			if id, err := turn(users[0]); err == nil {
				_, _ = r.Engine.Await(ctx, users[0], id, time.Hour)
			}
			usd, _ = r.Mem.SpentByOrg(ctx, parley.System(), "small", time.Now().UTC().Format(time.DateOnly))
		}
		for _, p := range []parley.Principal{{User: "a", Org: "large"}, {User: "a"}, {User: "a", Org: "other"}} {
			id, err := turn(p)
			if err != nil {
				t.Errorf("%+v: %v", p, err)
				continue
			}
			if got, err := r.Engine.Await(ctx, p, id, time.Hour); err != nil || got.Status != parley.StatusCompleted {
				t.Errorf("%+v: %s %+v, %v", p, got.Status, got.Error, err)
			}
		}
	})
}

// TestTurnsPerMinute_of_an_organisation: its users share a rate, and a turn that it has no room for
// does not use up the user's own.
func TestTurnsPerMinute_of_an_organisation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), func(o *engine.Options) {
			o.Limits.TurnsPerMinute, o.Limits.OrgTurnsPerMinute = 4, 3
		})
		defer r.Close()
		a, b := parley.Principal{User: "a", Org: "north"}, parley.Principal{User: "b", Org: "north"}
		send := func(p parley.Principal) error {
			s, _, err := r.Engine.Create(ctx, p, parley.CreateSession{App: "test"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Engine.Send(ctx, p, s.ID, parley.Send{Message: "go"})
			return err
		}
		for _, p := range []parley.Principal{a, b, a} {
			if err := send(p); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			e, ok := errors.AsType[*parley.Error](send(b))
			if !ok || e.Code != parley.CodeRateLimited || e.RetryAfter != 20*time.Second || !strings.Contains(e.Message, "organisation") {
				t.Fatalf("the fourth of the organisation gets %#v", e)
			}
		}
		if err := send(parley.Principal{User: "b", Org: "south"}); err != nil {
			t.Errorf("another organisation: %v", err)
		}
		time.Sleep(time.Minute)
		for range 3 {
			if err := send(b); err != nil {
				t.Errorf("a minute later: %v", err)
			}
		}
	})
}
