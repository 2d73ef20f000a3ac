package web

import (
	"net/url"
	"time"
)

// SetLimit sets how long a fetch may take.
func (t *Toolset) SetLimit(d time.Duration) { t.limit = d }

// Readable is the title and text of a page.
func Readable(raw []byte, at string) (title, text string) {
	u, err := url.Parse(at)
	if err != nil {
		panic(err)
	}
	return readable(raw, u)
}

// Limits of the package.
const (
	MaxBody     = maxBody
	MaxOfUser   = maxOfUser
	MaxCached   = maxCached
	CacheTime   = cacheTime
	OutputLimit = outputLimit
)

// Cached returns how many bytes are cached.
func (t *Toolset) Cached() int { return t.kept.total }
