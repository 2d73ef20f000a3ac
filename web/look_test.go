package web

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAccents: whatever colour an app chooses, what is written in it and on it can be read on
// every ground of both themes.
func TestAccents(t *testing.T) {
	t.Parallel()
	accents := []string{"#000000", "#ffffff", "#ffff00", "#0000ff", "#ff0000", "#777777", "#27272a", "#ececef", "#ff8205"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		accents = append(accents, fmt.Sprintf("#%06x", random.IntN(1<<24)))
	}
	value := regexp.MustCompile(`--color-([a-z-]+):(#[0-9a-f]{6})`)
	for _, accent := range accents {
		rules := strings.Split(strings.TrimSpace(string(accented(accent))), "\n")
		if len(rules) != 4 {
			t.Fatalf("%s: got %q, want rules for dark, light and the system's light", accent, rules)
		}
		for i, theme := range []string{"dark", "light", "light"} {
			c := map[string]rgb{}
			for _, m := range value.FindAllStringSubmatch(rules[i], -1) {
				c[m[1]] = hexColor(m[2])
			}
			atLeast := func(what string, a, b rgb, want float64) {
				if got := contrast(a, b); got < want {
					t.Errorf("%s, %s: %s has a contrast of %.2f, want %.1f", accent, theme, what, got, want)
				}
			}
			for _, ground := range grounds[theme] {
				atLeast("a link on "+ground.String(), c["link"], ground, 4.5)
				atLeast("the focus on "+ground.String(), c["focus"], ground, 3)
			}
			atLeast("a button", c["accent"], grounds[theme][0], 3)
			atLeast("text on a button", c["on-accent"], c["accent"], 4.5)
			atLeast("text on a button under the pointer", c["on-accent"], c["accent-hover"], 4.5)
		}
	}
	if got := accented(""); got != nil {
		t.Errorf("without an accent: got %s", got)
	}
}

// TestGrounds: the grounds are those of the style sheet.
func TestGrounds(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("src/styles/index.css")
	if err != nil {
		t.Fatal(err)
	}
	themes := regexp.MustCompile(`(?s)(@theme|:root\[data-theme="light"\]|:root\[data-theme="system"\]) \{(.*?)\n *\}`).FindAllStringSubmatch(string(raw), -1)
	if len(themes) != 3 {
		t.Fatalf("got %d themes, want 3", len(themes))
	}
	for i, theme := range []string{"dark", "light", "light"} {
		for k, name := range []string{"bg", "surface", "hover", "bubble"} {
			m := regexp.MustCompile(`--color-` + name + `: (#[0-9a-f]{6})`).FindStringSubmatch(themes[i][2])
			if m == nil || hexColor(m[1]) != grounds[theme][k] {
				t.Errorf("%s of %s: the style sheet has %q, grounds %s", name, themes[i][1], m, grounds[theme][k])
			}
		}
	}
}
