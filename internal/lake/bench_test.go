package lake_test

import (
	"testing"
	"time"

	"github.com/parley-server/parley/internal/lake"
)

// BenchmarkLake measures a lake of 5,000 entities: how long the first look takes, one at which nothing has changed, a search and a change.
func BenchmarkLake(b *testing.B) {
	g := &rig{t: b, dir: memory(b)}
	fill(b, g.dir, 5000)
	g.git("init", "-q", "-b", "main")
	g.git("add", ".")
	g.git("commit", "-q", "-m", "begin")
	b.Run("first look", func(b *testing.B) {
		for b.Loop() {
			g.open(lake.Options{Fresh: time.Hour})
			if _, err := g.List(b.Context(), lake.Filter{}, lake.Page{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, words := range searches {
		b.Run("search "+words, func(b *testing.B) {
			for b.Loop() {
				if _, err := g.Search(b.Context(), lake.Query{Text: words}, lake.Page{Limit: 20}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("change", func(b *testing.B) {
		e := g.read("docs/pricing/pricing-0000.md")
		for b.Loop() {
			e.Body += "More.\n"
			m, err := g.Update(b.Context(), lake.Change{Path: e.Path, Body: e.Body, Base: e.Version, Author: ana, Reason: "r", Key: e.Version})
			if err != nil {
				b.Fatal(err)
			}
			e.Version = m.Version
		}
	})
	b.Run("validate", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Validate(b.Context(), nil, lake.Page{Limit: 500}); err != nil {
				b.Fatal(err)
			}
		}
	})
	private := memory(b)
	for range 2 {
		g.open(lake.Options{Private: private})
		g.read("docs/pricing/pricing-0000.md")
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
	g.open(lake.Options{Private: private})
	b.Run("look again", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.List(b.Context(), lake.Filter{}, lake.Page{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// searches are what people may look for: words that few entities have, that many have, and several at once.
var searches = []string{"pricing", "word12", "onboarding word77", "security word3", "known about travel", "billing 17", "\"number 12\"", "roadm"}
