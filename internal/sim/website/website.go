// Package website simulates some web on loopback, for tests and demonstrations: a handful of pages
// of different sites, and a service that searches them.
//
// The service answers as a SearXNG does whose settings list json, at /search. All pages are at one
// host, in a folder for each site. One of them, /growth/more-reach, is hostile: it has instructions
// for whoever reads it for somebody else.
package website

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed pages
var files embed.FS

// page is a page of the sites.
type page struct {
	path, title, about, text, date string
	body                           []byte
}

// Server implements [http.Handler]. It is safe for concurrent use.
type Server struct{ pages []page }

var (
	titleOf = regexp.MustCompile(`(?s)<title>(.*?)</title>`)
	aboutOf = regexp.MustCompile(`<meta name="description" content="([^"]*)">`)
	dateOf  = regexp.MustCompile(`<time datetime="([^"]*)">`)
	noise   = regexp.MustCompile(`(?s)<(?:style|script|nav|footer)\b.*?</(?:style|script|nav|footer)>|<[^>]*>`)
	word    = regexp.MustCompile(`[\pL\d]+`)
)

// New makes a server.
func New() *Server {
	s := &Server{}
	folders, err := files.ReadDir("pages")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, folder := range folders {
		list, err := files.ReadDir("pages/" + folder.Name())
		if err != nil {
			panic(err)
		}
		for _, f := range list {
			body, err := files.ReadFile("pages/" + folder.Name() + "/" + f.Name())
			if err != nil {
				panic(err)
			}
			first := func(re *regexp.Regexp) string {
				if m := re.FindSubmatch(body); m != nil {
					return html.UnescapeString(string(m[1]))
				}
				return ""
			}
			s.pages = append(s.pages, page{
				path: "/" + folder.Name() + "/" + strings.TrimSuffix(f.Name(), path.Ext(f.Name())), title: first(titleOf), about: first(aboutOf), date: first(dateOf),
				text: html.UnescapeString(noise.ReplaceAllString(string(body), " ")), body: body,
			})
		}
	}
	return s
}

// Paths returns the paths of all pages.
func (s *Server) Paths() (list []string) {
	for _, p := range s.pages {
		list = append(list, p.path)
	}
	return list
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	switch {
	case r.URL.Path == "/search":
		s.search(w, r)
		return
	case r.URL.Path == "/":
		fmt.Fprint(w, "<!doctype html><html lang=\"en\"><title>Simulated web</title><h1>Simulated web</h1><p>These pages are made up.</p><ul>")
		for _, p := range s.pages {
			fmt.Fprintf(w, "<li><a href=\"%s\">%s</a></li>", p.path, html.EscapeString(p.title))
		}
		fmt.Fprint(w, "</ul>")
		return
	}
	for _, p := range s.pages {
		if p.path == strings.TrimSuffix(r.URL.Path, ".html") {
			_, _ = w.Write(p.body)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, "<!doctype html><html lang=\"en\"><title>Not found</title><h1>Not found</h1><p>There is no such page.</p>")
}

// result is one of a SearXNG's.
type result struct {
	Title   string  `json:"title"`
	URL     string  `json:"url"`
	Content string  `json:"content"`
	Date    string  `json:"publishedDate,omitempty"`
	Engine  string  `json:"engine"`
	Score   float64 `json:"score"`
}

// search answers a search for words: the pages that have most of them.
func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case strings.TrimSpace(q.Get("q")) == "":
		http.Error(w, "No query", http.StatusBadRequest)
		return
	case q.Get("format") != "json":
		http.Error(w, "This search answers format=json only.", http.StatusForbidden)
		return
	}
	found := []result{}
	for _, p := range s.pages {
		if score := p.score(words(q.Get("q"))); score > 0 {
			found = append(found, result{p.title, "http://" + r.Host + p.path, p.about, p.date, "simulated", score})
		}
	}
	slices.SortStableFunc(found, func(a, b result) int { return cmp.Compare(b.Score, a.Score) })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"query": q.Get("q"), "number_of_results": len(found), "results": found, "answers": []any{}, "corrections": []any{}, "infoboxes": []any{}, "suggestions": []any{}, "unresponsive_engines": []any{},
	})
}

// common are words that say nothing about a page.
var common = strings.Fields("a an the and or of in on at to for from with without by is are was be how what when where which who why do does can should i my me we our you your it its this that best about page site web look up search find")

// words are the words of a text that say what it is about, without an ending s.
func words(text string) (list []string) {
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		if w = strings.TrimSuffix(w, "s"); !slices.Contains(common, w) {
			list = append(list, w)
		}
	}
	return list
}

// score says how well a page fits: how many of the words it has, those of its title for more.
func (p page) score(asked []string) (score float64) {
	title, text := words(p.title+" "+p.about), words(p.text)
	for i, w := range asked {
		switch {
		case slices.Contains(asked[:i], w):
		case slices.Contains(title, w):
			score += 3
		case slices.Contains(text, w):
			score++
		}
	}
	if len(asked) == 0 || score < float64(len(asked))/2 {
		return 0
	}
	return score
}
