package config

import "slices"

// webFile is how an app reads the web.
type webFile struct {
	Allow  []string      `yaml:"allow"`   // hosts that need not be public, each with or without a port; default: none
	Search webSearchFile `yaml:"search"`  // who searches
	NoRule bool          `yaml:"no_rule"` // the app's own prompts say that what pages say is no instruction; default false
}

type webSearchFile struct {
	Provider string `yaml:"provider"` // brave, tavily, searxng, model or none; default: the first whose variable is set, else model
	Key      string `yaml:"key,ref"`  // of brave or tavily; default: BRAVE_API_KEY or TAVILY_API_KEY
	URL      string `yaml:"url,ref"`  // of searxng; default: SEARXNG_URL. Another address of brave or tavily
}

// Web is how an app reads the web.
type Web struct {
	Allow  []string
	Search WebSearch
	NoRule bool
}

// WebSearch says who searches. Empty values are the server's.
type WebSearch struct{ Provider, Key, URL string }

// web reads tools.web.
func (a *App) web(s Settings, f *webFile) {
	if f == nil {
		return
	}
	a.Toolsets = append(a.Toolsets, Toolset{Kind: "web", At: "tools.web", Web: &Web{Allow: slices.Concat(f.Allow, s.App[a.Name].WebAllow), Search: WebSearch(f.Search), NoRule: f.NoRule}})
}
