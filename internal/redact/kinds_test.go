package redact_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/redact"
)

// made are kinds of keys with a fixed prefix. The prefix is in two halves, so that no scanner
// reports this file as a leak. The rest has the characters and the length that the maker of the
// key uses.
var made = []struct {
	a, b string
	of   string // characters
	n    int
}{
	{"ops", "_eyJ", alnum, 300},
	{"p8", "e-", alnum, 32},
	{"p", "at", alnum, 79},
	{"LT", "AI", alnum, 20},
	{"AK", "Cp", alnum, 69},
	{"cm", "Vmd", alnum, 59},
	{"AB", "SK", alnum, 130},
	{"bedrock-", "api-key-", alnum, 60},
	{"Q", "~", alnum, 34},
	{"4b", "1d", alnum, 38},
	{"CLOJ", "ARS_", alnum, 60},
	{"v1", ".0-", alnum, 171},
	{"doo", "_v1_", hex, 64},
	{"dor", "_v1_", hex, 64},
	{"dckr", "_pat_", alnum, 22},
	{"dckr", "_oat_", alnum, 22},
	{"dp.", "pt.", alnum, 43},
	{"dp.", "st.", alnum, 42},
	{"duffel", "_live_", alnum, 43},
	{"duffel", "_test_", alnum, 43},
	{"dt0", "c01.", alnum, 89},
	{"EZ", "AK", alnum, 54},
	{"EZ", "TK", alnum, 54},
	{"E", "AA", alnum, 150},
	{"EA", "AA", alnum, 60},
	{"sq0", "atp-", alnum, 22},
	{"sq0", "csp-", alnum, 42},
	{"FLW", "SECK", alnum, 14},
	{"fo", "1_", alnum, 42},
	{"fm", "1a_", alnum, 200},
	{"fm", "1r_", alnum, 200},
	{"fm", "2_", alnum, 200},
	{"fio", "-u-", alnum, 64},
	{"glc", "bt-", alnum, 22},
	{"glf", "fct-", alnum, 22},
	{"gl", "ft-", alnum, 22},
	{"gli", "mt-", alnum, 25},
	{"glag", "ent-", alnum, 50},
	{"glo", "as-", alnum, 64},
	{"gls", "oat-", alnum, 22},
	{"GR13", "48941", alnum, 22},
	{"_gitlab_", "session=", hex, 34},
	{"eyJr", "Ijoi", alnum, 80},
	{"gl", "c_", alnum, 34},
	{"gl", "sa_", alnum, 42},
	{"pa", "t.", alnum, 62},
	{"sa", "t.", alnum, 62},
	{".atl", "asv1.", alnum, 67},
	{"HR", "KU-", alnum, 60},
	{"api_", "org_", alnum, 32},
	{"ic", "o-", alnum, 32},
	{"s-s", "4t2", alnum, 67},
	{"lin_o", "auth_", alnum, 32},
	{".webhook.office", ".com/webhookb2/", alnum, 62},
	{"hooks.slack.c", "om/workflows/", alnum, 22},
	{"hooks.slack.", "com/triggers/", alnum, 22},
	{"AP", "I-", upnum, 26},
	{"sha", "256~", alnum, 43},
	{"psc", "ale_", alnum, 47},
	{"pn", "u_", alnum, 36},
	{"pu", "l-", hex, 40},
	{"rd", "me_", alnum, 70},
	{"ruby", "gems_", hex, 48},
	{"tk-", "us-", alnum, 48},
	{"xkey", "sib-", alnum, 81},
	{"xsmt", "psib-", alnum, 81},
	{"ke", "y-", hex, 32},
	{"snt", "rys_", alnum, 42},
	{"snt", "ryu_", hex, 64},
	{"sm_", "aat_", alnum, 16},
	{"sm_", "pat_", alnum, 16},
	{"sm_", "sat_", alnum, 16},
	{"shippo", "_live_", hex, 42},
	{"shippo", "_test_", hex, 42},
	{"shp", "ca_", hex, 34},
	{"shp", "pa_", hex, 34},
	{"shp", "ss_", hex, 34},
	{"sg", "p_", alnum, 57},
	{"sk_p", "rod_", alnum, 18},
	{"rk_p", "rod_", alnum, 18},
	{"hv", "b.", alnum, 140},
	{"hv", "r.", alnum, 90},
	{"xo", "xo-", alnum, 12},
	{"tv", "ly-", alnum, 30},
	{"ls", "v2_", alnum, 51},
	{"pc", "sk_", alnum, 70},
	{"nva", "pi-", alnum, 64},
	{"s", "k_", hex, 48},
	{"sb", "p_", hex, 42},
	{"sb_se", "cret_", alnum, 22},
	{"nf", "p_", alnum, 38},
	{"vercel_", "blob_rw_", alnum, 32},
	{"NR", "AK-", upnum, 27},
	{"CFP", "AT-", alnum, 42},
	{"CCI", "PAT_", alnum, 42},
	{"bk", "ua_", hex, 42},
	{"ai", "o_", alnum, 28},
	{"tf", "p_", alnum, 42},
	{"s", "l.", alnum, 140},
	{"p", "k_", alnum, 41},
	{"S", "G.", alnum, 66},
	{"gh", "p_", alnum, 36},
	{"xo", "xb-", alnum, 40},
	{"AK", "IA", upnum, 16},
	{"gl", "pat-", alnum, 20},
	{"sk-", "ant-", alnum, 95},
	{"h", "f_", alnum, 34},
	{"np", "m_", alnum, 36},
	{"py", "pi-", alnum, 160},
	{"AI", "za", alnum, 35},
}

const (
	hex   = "0123456789abcdef"
	upnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum = upnum + "abcdefghijklmnopqrstuvwxyz"
)

// TestKeysOfAllMakers: each kind of key is redacted in any position, and its prefix stays.
func TestKeysOfAllMakers(t *testing.T) {
	t.Parallel()
	r := redact.New()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, m := range made {
		body := make([]byte, m.n)
		for i := range body {
			body[i] = m.of[rnd.IntN(len(m.of))]
		}
		copy(body, "7") // a digit and a letter, as in nearly all keys
		body[1] = m.of[len(m.of)-1]
		if m.of == alnum {
			body[2] = 'Q'
		}
		prefix, secret := m.a+m.b, string(body)
		gone := func(where, got string) {
			if strings.Contains(got, secret[2:10]) || strings.Contains(got, secret[len(secret)-6:]) {
				t.Errorf("%s, %s: got %q", prefix, where, got)
			}
		}
		key := prefix + secret
		for where, text := range map[string]string{
			"plain":     "use " + key + " for it",
			"a URL":     "https://h.example/x?k=" + key + "&page=2",
			"a header":  "X-Thing: " + key + "\r\nHost: h",
			"quoted":    "it is '" + key + "'.",
			"escaped":   `{\"k\":\"` + key + `\"}`,
			"at an end": key,
		} {
			got, _ := r.String(text)
			gone(where, got)
			if !strings.Contains(got, prefix+redact.Mark) && !strings.Contains(got, "[redacted]") {
				t.Errorf("%s, %s: got %q", prefix, where, got)
			}
			i, j := len(text)/3, 2*len(text)/3
			if cut := pass(r, text[:i], text[i:j], text[j:]); cut != got {
				t.Errorf("%s, %s, in three fragments: got %q, want %q", prefix, where, cut, got)
			}
		}
		doc, err := json.Marshal(map[string]any{"k": key, "list": []string{"a " + key + " b"}})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := r.JSON(doc)
		gone("JSON", string(got))
	}
}

// TestLookAlikesOfKeys: a text that begins like a key, but is none, is unchanged.
func TestLookAlikesOfKeys(t *testing.T) {
	t.Parallel()
	r := redact.New()
	rnd := rand.New(rand.NewPCG(3, 4))
	of := func(set string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = set[rnd.IntN(len(set))]
		}
		return string(b)
	}
	texts := []string{
		"pattern.matches patient pat.name sat.upper key-value key-0123 api_organisation API-first API-REFERENCE-2026",
		"EAAstern tk-us-east-1 v1.0-beta.2 v1.0-rc1 ico-arrow sl.no sk_buff sha256~ops_eye glc_get pnu_x nfp_2 pul-down",
		"sm_pattern sgp_id sbp_v1 fo1_x rdme_md bkua tfp_1 aio_read aio_write fm2_x EZAKmak doo_v1_x dp.pt.x hooks.slack.com/services",
		"pk_order_items_2026_idx duffel_test_suite lsv2_schema shippo_test_case vercel_blob_rw_x pscale_main xoxo-",
		"Q~ and a~b Q~x; terraform.atlasv1.x; /webhookb2/ ; dt0c01.x; 4b1d; 4b1d7e2f9a8c6b5d4e3f2a1b0c9d8e7f6a5b4c3d",
	}
	for range 300 {
		texts = append(texts,
			"4b1d"+of(hex, 36), "4b1d"+of(hex, 60), of(hex, 40), of(hex, 64), "0"+of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 25),
			of(hex, 8)+"-"+of(hex, 4)+"-4"+of(hex, 3)+"-a"+of(hex, 3)+"-"+of(hex, 12),
			"data:image/png;base64,iVBORw0KGgo"+of(alnum+"+/", 200)+"==", "data:image/jpeg;base64,/9j/4AAQSkZJRgABAQ"+of(alnum+"+/", 200),
			"sha256:"+of(hex, 64), "sha512-"+of(alnum+"+/", 86)+"==", "W/\""+of(hex, 32)+"\"", of("0123456789", 18))
	}
	for _, text := range texts {
		if got, found := r.String(text); found {
			t.Errorf("got %q for %q", got, text)
		}
	}
}
