package redact

// A rule is a shape: a prefix that is public, and what must follow.
type rule struct {
	prefix string
	fold   bool // prefix is in lower case and met in either
	inner  bool // may follow a letter or digit
	kind   kind

	// For a run: bytes of class, min at least and max at most (0: no end),
	// among them the kinds of characters of need.
	class    class
	min, max int
	need     chars
}

type kind uint8

const (
	run    kind = iota
	assign      // a value after : or =
	jwt
	pem
	userinfo // user:password@
	basic    // base64 of user:password
	dotted   // three runs with dots between, as Discord makes them
)

// longest is how many bytes of a shape are looked at to judge it. A secret may be
// longer: what follows in the same class goes with it.
const longest = 128

var rules = []rule{
	// AWS access keys. The secret half has no shape; see the assignments.
	{prefix: "AKIA", class: upnum, min: 16, max: 16, need: digit},
	{prefix: "ASIA", class: upnum, min: 16, max: 16, need: digit},
	{prefix: "ABIA", class: upnum, min: 16, max: 16, need: digit},
	{prefix: "ACCA", class: upnum, min: 16, max: 16, need: digit},
	// GitHub, GitLab
	{prefix: "ghp_", class: word, min: 30},
	{prefix: "gho_", class: word, min: 30},
	{prefix: "ghu_", class: word, min: 30},
	{prefix: "ghs_", class: jot, min: 30},
	{prefix: "ghr_", class: word, min: 30},
	{prefix: "github_pat_", class: word, min: 22, need: digit},
	{prefix: "glpat-", class: token, min: 20},
	{prefix: "glptt-", class: token, min: 20},
	{prefix: "gldt-", class: token, min: 20},
	{prefix: "glrt-", class: token, min: 20},
	// Slack
	{prefix: "xoxa-", class: token, min: 10, need: digit},
	{prefix: "xoxb-", class: token, min: 10, need: digit},
	{prefix: "xoxp-", class: token, min: 10, need: digit},
	{prefix: "xoxr-", class: token, min: 10, need: digit},
	{prefix: "xoxs-", class: token, min: 10, need: digit},
	{prefix: "xoxe-", class: token, min: 10, need: digit},
	{prefix: "xoxe.", class: jot, min: 10, need: digit},
	{prefix: "xapp-", class: token, min: 10, need: digit},
	{prefix: "hooks.slack.com/services/", class: b64, min: 20, need: digit},
	// Model providers
	{prefix: "sk-ant-", class: token, min: 20, need: digit},
	{prefix: "sk-proj-", class: token, min: 20, need: digit},
	{prefix: "sk-svcacct-", class: token, min: 20, need: digit},
	{prefix: "sk-admin-", class: token, min: 20, need: digit},
	{prefix: "sk-or-v1-", class: token, min: 20, need: digit},
	{prefix: "sk-lf-", class: token, min: 20, need: digit},
	{prefix: "sk-", class: word, min: 32, need: digit},
	{prefix: "AIza", class: token, min: 35},
	{prefix: "AQ.Ab", class: token, min: 30, need: digit},
	{prefix: "ya29.", class: jot, min: 20, need: digit},
	{prefix: "GOCSPX-", class: token, min: 20},
	{prefix: "1//0", class: token, min: 30},
	{prefix: "gsk_", class: word, min: 40, need: digit},
	{prefix: "xai-", class: token, min: 40, need: digit},
	{prefix: "pplx-", class: word, min: 40, need: digit},
	{prefix: "hf_", class: word, min: 30, need: upcase},
	{prefix: "r8_", class: word, min: 35, need: digit},
	// Payment, mail, telephone
	{prefix: "sk_live_", class: word, min: 16},
	{prefix: "sk_test_", class: word, min: 16, need: digit},
	{prefix: "rk_live_", class: word, min: 16},
	{prefix: "rk_test_", class: word, min: 16, need: digit},
	{prefix: "whsec_", class: b64, min: 20, need: digit},
	{prefix: "SG.", class: jot, min: 50, need: digit},
	{prefix: "SK", class: hex, min: 32, max: 32, need: digit},
	// Chats and houses
	{prefix: ":AA", inner: true, class: token, min: 33, max: 33, need: digit | upcase | lowcase}, // 123456789:AA... of Telegram
	{prefix: "MD", kind: dotted}, // a user's number in base64
	{prefix: "MT", kind: dotted},
	{prefix: "Mj", kind: dotted},
	{prefix: "Mz", kind: dotted},
	{prefix: "ND", kind: dotted},
	{prefix: "NT", kind: dotted},
	{prefix: "Nj", kind: dotted},
	{prefix: "Nz", kind: dotted},
	{prefix: "OD", kind: dotted},
	{prefix: "OT", kind: dotted},
	{prefix: "/api/webhooks/", class: path, inner: true, min: 40, need: digit}, // Discord
	{prefix: "/api/webhook/", class: token, inner: true, min: 24, need: digit}, // Home Assistant
	// Packages, hosting, tools
	{prefix: "npm_", class: word, min: 36, need: digit},
	{prefix: "pypi-", class: token, min: 50, need: digit},
	{prefix: "dop_v1_", class: hex, min: 60},
	{prefix: "dapi", class: hex, min: 32, max: 32, need: digit},
	{prefix: "shpat_", class: hex, min: 32},
	{prefix: "hvs.", class: token, min: 24, need: digit},
	{prefix: "tskey-", class: token, min: 20, need: digit},
	{prefix: "ntn_", class: word, min: 40, need: digit},
	{prefix: "secret_", class: word, min: 43, need: digit | upcase},
	{prefix: "lin_api_", class: word, min: 30, need: digit},
	{prefix: "figd_", class: token, min: 30, need: digit},
	{prefix: "ATATT3", class: token, min: 50},
	{prefix: "PMAK-", class: token, min: 40, need: digit},
	{prefix: "AGE-SECRET-KEY-1", class: upnum, min: 40},
	// More that have a prefix of their own. The formats are facts, as gitleaks' list
	// of rules (config/gitleaks.toml) names them; where one has a checksum or an
	// exact length, a little less is enough here: what was cut off is a secret, too.
	{prefix: "ops_eyJ", class: b64, min: 100},                     // 1Password
	{prefix: "p8e-", class: alnum, min: 32, max: 32, need: digit}, // Adobe
	{prefix: "pat", class: jot, min: 79, max: 79, need: digit},    // Airtable
	{prefix: "LTAI", class: alnum, min: 12, max: 24, need: digit}, // Alibaba
	{prefix: "AKCp", class: alnum, min: 60, need: digit},          // Artifactory
	{prefix: "cmVmd", class: alnum, min: 59, max: 59, need: digit},
	{prefix: "ABSK", class: b64, min: 100, need: digit}, // Bedrock
	{prefix: "bedrock-api-key-", class: b64, min: 30},
	{prefix: "Q~", inner: true, class: bearer, min: 31, max: 36, need: digit}, // Entra, behind four characters
	{prefix: "4b1d", class: alnum, min: 38, max: 38, need: digit | upcase},    // ClickHouse
	{prefix: "CLOJARS_", class: alnum, min: 50},
	{prefix: "v1.0-", class: token, min: 120, need: digit}, // Cloudflare
	{prefix: "doo_v1_", class: hex, min: 60},
	{prefix: "dor_v1_", class: hex, min: 60},
	{prefix: "dckr_pat_", class: token, min: 20, need: digit},
	{prefix: "dckr_oat_", class: token, min: 20, need: digit},
	{prefix: "dp.pt.", class: alnum, min: 40}, // Doppler
	{prefix: "dp.st.", class: jot, min: 40, need: digit},
	{prefix: "duffel_live_", class: token, min: 40},
	{prefix: "duffel_test_", class: token, min: 40},
	{prefix: "dt0c01.", class: jot, min: 60, need: digit}, // Dynatrace
	{prefix: "EZAK", class: alnum, min: 50, need: digit},  // EasyPost
	{prefix: "EZTK", class: alnum, min: 50, need: digit},
	{prefix: "EAA", class: alnum, min: 100, need: digit | upcase | lowcase}, // Facebook
	{prefix: "EAAA", class: token, min: 60, max: 60, need: digit},           // Square
	{prefix: "sq0atp-", class: token, min: 20},
	{prefix: "sq0csp-", class: token, min: 40},
	{prefix: "FLWSECK", class: token, min: 12, need: digit}, // Flutterwave
	{prefix: "fo1_", class: token, min: 40, need: digit},    // Fly.io
	{prefix: "fm1a_", class: b64, min: 100},
	{prefix: "fm1r_", class: b64, min: 100},
	{prefix: "fm2_", class: b64, min: 100},
	{prefix: "fio-u-", class: token, min: 60}, // Frame.io
	{prefix: "glcbt-", class: token, min: 20}, // GitLab
	{prefix: "glffct-", class: token, min: 20},
	{prefix: "glft-", class: token, min: 20},
	{prefix: "glimt-", class: token, min: 20},
	{prefix: "glagent-", class: token, min: 40},
	{prefix: "gloas-", class: token, min: 40},
	{prefix: "glsoat-", class: token, min: 20},
	{prefix: "GR1348941", class: token, min: 20},
	{prefix: "_gitlab_session=", inner: true, class: hex, min: 32},
	{prefix: "eyJrIjoi", class: b64, min: 60}, // Grafana
	{prefix: "glc_", class: b64, min: 32, need: digit},
	{prefix: "glsa_", class: word, min: 40, need: digit},
	{prefix: "pat.", class: jot, min: 60, need: digit | upcase}, // Harness
	{prefix: "sat.", class: jot, min: 60, need: digit | upcase},
	{prefix: ".atlasv1.", inner: true, class: token, min: 50}, // Terraform
	{prefix: "HRKU-", class: token, min: 36, need: digit},     // Heroku
	{prefix: "api_org_", class: alnum, min: 30, need: upcase}, // Hugging Face
	{prefix: "ico-", class: alnum, min: 32, max: 32, need: digit},
	{prefix: "s-s4t2", class: token, min: 60},
	{prefix: "lin_oauth_", class: word, min: 30, need: digit},
	{prefix: ".webhook.office.com/webhookb2/", inner: true, class: value, min: 60, need: digit},
	{prefix: "hooks.slack.com/workflows/", class: b64, min: 20, need: digit},
	{prefix: "hooks.slack.com/triggers/", class: b64, min: 20, need: digit},
	{prefix: "API-", class: upnum, min: 26, max: 26, need: digit}, // Octopus
	{prefix: "sha256~", class: token, min: 43, max: 43},           // OpenShift
	{prefix: "pscale_", class: jot, min: 32, need: digit},
	{prefix: "pnu_", class: alnum, min: 36, max: 36, need: digit}, // Prefect
	{prefix: "pul-", class: hex, min: 40, max: 40, need: digit},   // Pulumi
	{prefix: "rdme_", class: alnum, min: 60},
	{prefix: "rubygems_", class: hex, min: 40},
	{prefix: "tk-us-", class: token, min: 40, need: digit},   // Scalingo
	{prefix: "xkeysib-", class: token, min: 60, need: digit}, // Brevo
	{prefix: "xsmtpsib-", class: token, min: 60, need: digit},
	{prefix: "key-", class: hex, min: 32, max: 32, need: digit}, // Mailgun
	{prefix: "sntrys_", class: bearer, min: 40, need: digit},    // Sentry
	{prefix: "sntryu_", class: hex, min: 60},
	{prefix: "sm_aat_", class: alnum, min: 16, max: 16, need: digit}, // SettleMint
	{prefix: "sm_pat_", class: alnum, min: 16, max: 16, need: digit},
	{prefix: "sm_sat_", class: alnum, min: 16, max: 16, need: digit},
	{prefix: "shippo_live_", class: hex, min: 40},
	{prefix: "shippo_test_", class: hex, min: 40},
	{prefix: "shpca_", class: hex, min: 32}, // Shopify
	{prefix: "shppa_", class: hex, min: 32},
	{prefix: "shpss_", class: hex, min: 32},
	{prefix: "sgp_", class: word, min: 40, need: digit}, // Sourcegraph
	{prefix: "sk_prod_", class: word, min: 16, need: digit},
	{prefix: "rk_prod_", class: word, min: 16, need: digit},
	{prefix: "hvb.", class: token, min: 60, need: digit}, // Vault
	{prefix: "hvr.", class: token, min: 24, need: digit},
	{prefix: "xoxo-", class: token, min: 10, need: digit},
	{prefix: "tvly-", class: token, min: 28, need: digit},      // Tavily
	{prefix: "lsv2_", class: word, min: 40, need: digit},       // LangSmith
	{prefix: "pcsk_", class: word, min: 40, need: digit},       // Pinecone
	{prefix: "nvapi-", class: token, min: 50, need: digit},     // NVIDIA
	{prefix: "sk_", class: hex, min: 40, max: 64, need: digit}, // ElevenLabs
	{prefix: "sbp_", class: hex, min: 40, need: digit},         // Supabase
	{prefix: "sb_secret_", class: token, min: 20, need: digit},
	{prefix: "nfp_", class: alnum, min: 36, need: digit}, // Netlify
	{prefix: "vercel_blob_rw_", class: word, min: 30, need: digit},
	{prefix: "NRAK-", class: upnum, min: 27, max: 27, need: digit},       // New Relic
	{prefix: "CFPAT-", class: token, min: 40},                            // Contentful
	{prefix: "CCIPAT_", class: word, min: 40, need: digit},               // CircleCI
	{prefix: "bkua_", class: hex, min: 40},                               // Buildkite
	{prefix: "aio_", class: alnum, min: 28, max: 28, need: digit},        // Adafruit
	{prefix: "tfp_", class: token, min: 40, need: digit},                 // Typeform
	{prefix: "sl.", class: token, min: 100, need: digit},                 // Dropbox
	{prefix: "pk_", class: word, min: 38, max: 44, need: digit | upcase}, // ClickUp
	// Our own
	{prefix: "prk_", class: token, min: 16},
	{prefix: "pk_", class: alnum, min: 20, need: digit},
	{prefix: "pk_", class: base32, min: 26, max: 26}, // as made; one in 200 has no digit

	{prefix: "eyJ", kind: jwt},
	{prefix: "-----BEGIN ", kind: pem, inner: true},
	{prefix: "://", kind: userinfo, inner: true},
	{prefix: "bearer ", fold: true, class: bearer, min: 16, need: digit},
	{prefix: "basic ", fold: true, kind: basic},

	// Plain "token" and "secret" are left out: most of what follows them is a
	// page's cursor or the name of a secret.
	{prefix: "password", fold: true, inner: true, kind: assign},
	{prefix: "passwd", fold: true, inner: true, kind: assign},
	{prefix: "passphrase", fold: true, inner: true, kind: assign},
	{prefix: "pwd", fold: true, inner: true, kind: assign},
	{prefix: "api_key", fold: true, inner: true, kind: assign},
	{prefix: "api-key", fold: true, inner: true, kind: assign},
	{prefix: "apikey", fold: true, inner: true, kind: assign},
	{prefix: "access_key", fold: true, inner: true, kind: assign},
	{prefix: "accesskey", fold: true, inner: true, kind: assign},
	{prefix: "accountkey", fold: true, inner: true, kind: assign},
	{prefix: "secret_key", fold: true, inner: true, kind: assign},
	{prefix: "secretkey", fold: true, inner: true, kind: assign},
	{prefix: "private_key", fold: true, inner: true, kind: assign},
	{prefix: "_secret", fold: true, inner: true, kind: assign},
	{prefix: "clientsecret", fold: true, inner: true, kind: assign},
	{prefix: "access_token", fold: true, inner: true, kind: assign},
	{prefix: "accesstoken", fold: true, inner: true, kind: assign},
	{prefix: "refresh_token", fold: true, inner: true, kind: assign},
	{prefix: "refreshtoken", fold: true, inner: true, kind: assign},
	{prefix: "auth_token", fold: true, inner: true, kind: assign},
	{prefix: "authtoken", fold: true, inner: true, kind: assign},
	{prefix: "bot_token", fold: true, inner: true, kind: assign},
	{prefix: "session_token", fold: true, inner: true, kind: assign},
}

// class is a set of classes of characters, one bit each.
type class uint32

const (
	upnum  class = 1 << iota // A-Z 0-9
	hex                      // 0-9 a-f
	word                     // letters, digits, _
	token                    // word and -
	jot                      // token and .
	b64                      // letters, digits, + / =
	bearer                   // jot and ~ + / =
	value                    // what a password is made of when not in quotes
	quoted                   // and in quotes
	bare                     // printable and no quote: what goes of it without quotes
	param                    // the same in a query
	user                     // of a URL
	pass                     // of a URL, up to the path
	inPEM                    // all up to the end marker
	path                     // token and /
	alnum                    // letters, digits
	base32                   // a-z 2-7
)

// chars are kinds of characters that a run must have.
type chars uint8

const (
	digit chars = 1 << iota
	upcase
	lowcase
)

var classes, has = func() (cs [256]class, hs [256]chars) {
	in := func(c byte, set string) bool {
		for i := range len(set) {
			if set[i] == c {
				return true
			}
		}
		return false
	}
	for i := range 256 {
		c := byte(i)
		num, up, low := '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z'
		set := func(ok bool, k class) {
			if ok {
				cs[c] |= k
			}
		}
		an := num || up || low
		set(num || up, upnum)
		set(num || 'a' <= c && c <= 'f', hex)
		set(an, alnum)
		set(low || '2' <= c && c <= '7', base32)
		set(an || c == '_', word)
		set(an || in(c, "_-"), token)
		set(an || in(c, "_-."), jot)
		set(an || in(c, "+/="), b64)
		set(an || in(c, "_-/"), path)
		set(an || in(c, "_-.~+/="), bearer)
		set(an || in(c, "_-.~+/=!@#%^*?:"), value)
		set('!' <= c && c <= '~' && !in(c, "\"'`\\"), quoted)
		set('!' <= c && c <= '~' && !in(c, "\"'`\\"), bare)
		set('!' <= c && c <= '~' && !in(c, "\"'`\\&#"), param)
		set('!' <= c && c <= '~' && !in(c, "\"'`\\<>/:@?#"), user)
		set('!' <= c && c <= '~' && !in(c, "\"'`\\<>/?#"), pass)
		switch {
		case num:
			hs[c] = digit
		case up:
			hs[c] = upcase
		case low:
			hs[c] = lowcase
		}
	}
	return cs, hs
}()
