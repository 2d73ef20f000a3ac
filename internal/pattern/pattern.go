// Package pattern has regular expressions that are compiled when they are first used. A program with a
// few hundred of them would otherwise spend a third of its start on expressions of which it uses a few.
package pattern

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression of package regexp, whose methods it has. It is safe for concurrent use.
// A faulty expression panics when it is first used; TestAll compiles those that the source spells out.
type Regexp struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// New returns the expression, which is not compiled yet.
func New(text string) *Regexp { return &Regexp{text: text} }

func (r *Regexp) get() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.text) })
	return r.re
}

func (r *Regexp) String() string                         { return r.text }
func (r *Regexp) Match(b []byte) bool                    { return r.get().Match(b) }
func (r *Regexp) MatchString(s string) bool              { return r.get().MatchString(s) }
func (r *Regexp) Split(s string, n int) []string         { return r.get().Split(s, n) }
func (r *Regexp) FindString(s string) string             { return r.get().FindString(s) }
func (r *Regexp) FindStringIndex(s string) []int         { return r.get().FindStringIndex(s) }
func (r *Regexp) FindSubmatch(b []byte) [][]byte         { return r.get().FindSubmatch(b) }
func (r *Regexp) FindStringSubmatch(s string) []string   { return r.get().FindStringSubmatch(s) }
func (r *Regexp) FindStringSubmatchIndex(s string) []int { return r.get().FindStringSubmatchIndex(s) }
func (r *Regexp) FindAllString(s string, n int) []string { return r.get().FindAllString(s, n) }
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.get().FindAllStringIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.get().FindAllStringSubmatchIndex(s, n)
}
func (r *Regexp) ReplaceAllString(s, by string) string { return r.get().ReplaceAllString(s, by) }
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.get().ReplaceAllStringFunc(s, by)
}

func (r *Regexp) ExpandString(dst []byte, template, s string, match []int) []byte {
	return r.get().ExpandString(dst, template, s, match)
}
func (r *Regexp) SubexpIndex(name string) int      { return r.get().SubexpIndex(name) }
func (r *Regexp) FindSubmatchIndex(b []byte) []int { return r.get().FindSubmatchIndex(b) }
