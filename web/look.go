package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Look is what an app's page needs to know before its first request. It is public: anyone who
// reaches the server and knows the app's name can read it.
type Look struct {
	Title       string
	Description string
	Accent      string // "#rrggbb", or "" for the usual one
	Logo        []byte // nil: none
	LogoType    string // its media type
}

// rgb is a colour in sRGB, each part from 0 to 1.
type rgb [3]float64

var (
	black = rgb{}
	white = rgb{1, 1, 1}
)

// grounds are the background colours of the two themes on which text in the accent colour stands,
// with the values of styles/index.css: bg, surface, hover and bubble.
var grounds = map[string][]rgb{
	"dark":  {hexColor("#0a0a0a"), hexColor("#141414"), hexColor("#1c1c1f"), hexColor("#27272a")},
	"light": {white, hexColor("#f6f6f7"), hexColor("#ebebee"), hexColor("#ececef")},
}

// The contrasts that WCAG 2 AA requires for text and for graphics, and a little more because of
// rounding.
const (
	readable = 4.55
	visible  = 3.05
)

// accented returns the style sheet of a page with an accent colour. Text in this colour and on it
// is readable in both themes, whatever the colour: it is mixed with as much white or black as that
// takes.
func accented(accent string) []byte {
	if accent == "" {
		return nil
	}
	own := hexColor(accent)
	var b strings.Builder
	theme := func(selector, name string, toward rgb) {
		ground := grounds[name]
		fill := until(own, toward, visible, ground[:2])
		on, away := white, black // one of the two has a contrast of at least 4.58
		if contrast(fill, black) > contrast(fill, white) {
			on, away = black, white
		}
		fmt.Fprintf(&b, "%s{--color-accent:%s;--color-accent-hover:%s;--color-on-accent:%s;--color-link:%s;--color-focus:%s}\n",
			selector, fill, mix(fill, away, 0.15), on, until(own, toward, readable, ground), until(own, toward, visible, ground))
	}
	// The selector is doubled so that it takes precedence over the page's own style sheet.
	theme(":root:root", "dark", white)
	theme(`:root:root[data-theme="light"]`, "light", black)
	b.WriteString("@media (prefers-color-scheme:light){")
	theme(`:root:root[data-theme="system"]`, "light", black)
	b.WriteString("}\n")
	return []byte(b.String())
}

// until mixes c with toward until the contrast to each ground is high enough.
func until(c, toward rgb, enough float64, ground []rgb) rgb {
	for share := 0.0; share < 1; share += 0.02 {
		mixed := rounded(mix(c, toward, share))
		least := math.Inf(1)
		for _, g := range ground {
			least = min(least, contrast(mixed, g))
		}
		if least >= enough {
			return mixed
		}
	}
	return toward
}

func mix(a, b rgb, share float64) rgb {
	var m rgb
	for i := range m {
		m[i] = a[i]*(1-share) + b[i]*share
	}
	return m
}

// contrast is the contrast ratio of WCAG 2.
func contrast(a, b rgb) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(c rgb) float64 {
	var l [3]float64
	for i, v := range c {
		if l[i] = v / 12.92; v > 0.04045 {
			l[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
}

// hexColor parses "#rrggbb"; anything else is black.
func hexColor(s string) rgb {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "#"), 16, 24)
	if err != nil {
		return black
	}
	return rgb{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255}
}

// rounded returns c with the precision that a page gets.
func rounded(c rgb) rgb { return hexColor(c.String()) }

func (c rgb) String() string {
	part := func(v float64) int { return int(math.Round(v * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}
