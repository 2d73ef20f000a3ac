package program

import (
	"cmp"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tool/web"
)

// searchVariables are the variables of the server by which a search service is chosen, in this
// order.
var searchVariables = []struct {
	name, provider string
	url            bool // its value is an address, not a key
}{
	{"BRAVE_API_KEY", web.Brave, false},
	{"TAVILY_API_KEY", web.Tavily, false},
	{"SEARXNG_URL", web.SearXNG, true},
}

// newWeb makes the tools of the web, as the app describes them under tools.web.
func newWeb(d app.ToolDeps) (app.Service, error) {
	w := d.Toolset.Web
	o := web.Options{Allow: w.Allow, NoRule: w.NoRule, Requested: d.Fetching, Search: web.SearchOptions(w.Search)}
	for _, v := range searchVariables {
		value := d.Env(v.name)
		if value == "" || o.Search.Provider != "" && o.Search.Provider != v.provider {
			continue
		}
		o.Search.Provider = v.provider
		if v.url {
			o.Search.URL = cmp.Or(o.Search.URL, value)
		} else {
			o.Search.Key = cmp.Or(o.Search.Key, value)
		}
	}
	o.Search.Provider = cmp.Or(o.Search.Provider, web.ByModel)
	tools, err := web.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	s := app.Service{Toolset: tools, Close: tools.Close}
	if o.Search.Key != "" {
		s.Secrets = []string{o.Search.Key}
	}
	return s, nil
}
