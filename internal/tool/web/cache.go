package web

import (
	"container/list"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	cacheTime = 15 * time.Minute
	maxCached = 32 << 20 // bytes of text of all users
	maxOfUser = 8 << 20  // of one user
	entrySize = 512      // bytes that an entry has besides its text
)

// page is a page as it was read.
type page struct {
	url   string // where it was in the end
	title string
	text  string
	at    time.Time
}

type pageKey struct {
	of  parley.Principal
	app string
	url string
}

// cache keeps pages for a while, each for one user of one app. When there is no room, the
// pages that were read first go first: those of the same user if that one has too much.
type cache struct {
	now func() time.Time

	mu    sync.Mutex
	pages map[pageKey]*list.Element
	order list.List // of *entry, in the order in which they were read
	size  map[parley.Principal]int
	total int
}

type entry struct {
	key  pageKey
	page page
	size int
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, pages: map[pageKey]*list.Element{}, size: map[parley.Principal]int{}}
}

func (c *cache) get(k pageKey) (page, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	at, ok := c.pages[k]
	if !ok {
		return page{}, false
	}
	return at.Value.(*entry).page, true //nolint:forcetypeassert // nothing else is in it
}

func (c *cache) put(k pageKey, p page) {
	e := &entry{key: k, page: p, size: entrySize + len(k.url) + len(p.url) + len(p.title) + len(p.text)}
	if e.size > maxOfUser {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	if at, ok := c.pages[k]; ok {
		c.drop(at)
	}
	for at := c.order.Front(); at != nil && c.size[k.of]+e.size > maxOfUser; {
		next := at.Next()
		if at.Value.(*entry).key.of == k.of { //nolint:forcetypeassert // as above
			c.drop(at)
		}
		at = next
	}
	for c.total+e.size > maxCached {
		c.drop(c.order.Front())
	}
	c.pages[k] = c.order.PushBack(e)
	c.size[k.of] += e.size
	c.total += e.size
}

// expire drops what is too old.
func (c *cache) expire() {
	for at := c.order.Front(); at != nil && c.now().Sub(at.Value.(*entry).page.at) >= cacheTime; at = c.order.Front() { //nolint:forcetypeassert // as above
		c.drop(at)
	}
}

func (c *cache) drop(at *list.Element) {
	e := c.order.Remove(at).(*entry) //nolint:forcetypeassert // as above
	delete(c.pages, e.key)
	c.total -= e.size
	if c.size[e.key.of] -= e.size; c.size[e.key.of] == 0 {
		delete(c.size, e.key.of)
	}
}
