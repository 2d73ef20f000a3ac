package crm

// kind is a kind of record. Handlers, tables and the description are made from it.
type kind struct {
	name   string // plural, as in paths
	one    string // singular, and the prefix of ids
	about  string
	fields []field
	sort   string // the default
	// keyed says that creating one takes an Idempotency-Key.
	keyed bool
	// oneOf names references of which exactly one must be set.
	oneOf []string
	// groups are the fields by which GET /api/{name}/summary groups, sum the number that it adds up.
	groups []string
	sum    string
}

type typ string

const (
	text  typ = "text"
	long  typ = "long text"
	email typ = "email"
	whole typ = "integer"
	flag  typ = "boolean"
	day   typ = "date"
	when  typ = "moment" // set by the server
	enum  typ = "enum"
	ref   typ = "ref"
)

type filter int

const (
	none  filter = iota
	one          // ?name=value
	many         // ?status=new,lost, or none for records without a value
	spans        // ?min_score=, ?max_score=; ?due_from=, ?due_until=
)

type field struct {
	name, about string
	typ         typ
	of          []string // values of an enum
	to          string   // kind of a ref, or users
	as          string   // of a ref: the read-only field with the name of what it refers to
	min, max    int      // characters, or the range of a number
	fresh       any      // the value of a new record that does not say
	needed      bool
	filter      filter
	sorted      bool
	searched    bool
	span        string // of spans: the name that the parameters have; empty: name
}

// filledIn says that clients cannot set the field.
func (f field) filledIn() bool { return f.typ == when || f.name == "author_id" }

func (f field) spanned() (from, until string) {
	name := f.span
	if name == "" {
		name = f.name
	}
	if f.typ == whole {
		return "min_" + name, "max_" + name
	}
	return name + "_from", name + "_until"
}

// stamps are fields of every kind.
var stamps = []field{
	{name: "created_at", about: "When the record was made.", typ: when, filter: spans, span: "created", sorted: true},
	{name: "updated_at", about: "When the record was last changed.", typ: when, filter: spans, span: "updated", sorted: true},
}

var kinds = []*kind{
	{
		name: "leads", one: "lead", about: "People who may become customers.", sort: "-created_at", keyed: true,
		groups: []string{"status", "source", "city", "country", "owner_id", "company_id", "project_id"}, sum: "value",
		fields: append([]field{
			{name: "name", about: "Full name.", typ: text, min: 1, max: 120, needed: true, filter: one, sorted: true, searched: true},
			{name: "email", about: "Address of the person; no two leads have the same.", typ: email, max: 200, filter: one, sorted: true, searched: true},
			{name: "phone", about: "Number with the code of its country.", typ: text, max: 40, searched: true},
			{name: "title", about: "What the person does at the company.", typ: text, max: 120, searched: true},
			{name: "company_id", about: "Company of the lead.", typ: ref, to: "companies", as: "company", filter: many},
			{name: "project_id", about: "Project that the lead belongs to.", typ: ref, to: "projects", as: "project", filter: many},
			{name: "owner_id", about: "User who looks after the lead.", typ: ref, to: "users", as: "owner", filter: many},
			{name: "city", about: "City where the person works.", typ: text, max: 80, filter: many, sorted: true, searched: true},
			{name: "country", about: "Country, in English.", typ: text, max: 80, filter: many, sorted: true, searched: true},
			{name: "status", about: "How far the lead has come.", typ: enum, of: []string{"new", "contacted", "qualified", "proposal", "won", "lost"}, fresh: "new", filter: many, sorted: true},
			{name: "source", about: "Where the lead came from.", typ: enum, of: []string{"website", "trial", "referral", "event", "outbound", "import"}, filter: many, sorted: true},
			{name: "score", about: "How promising the lead is, from 0 to 100.", typ: whole, max: 100, fresh: 0, filter: spans, sorted: true},
			{name: "value", about: "Expected revenue of one year, in euros.", typ: whole, max: 10_000_000, fresh: 0, filter: spans, sorted: true},
			{name: "last_contact_on", about: "Day of the last conversation.", typ: day, filter: spans, span: "last_contact", sorted: true},
			{name: "unsubscribed", about: "Whether the person wants no mail.", typ: flag, fresh: false, filter: one},
		}, stamps...),
	},
	{
		name: "companies", one: "company", about: "Companies where leads work.", sort: "name",
		groups: []string{"industry", "size", "plan", "city", "country"}, sum: "active_users",
		fields: append([]field{
			{name: "name", about: "Name of the company.", typ: text, min: 1, max: 120, needed: true, filter: one, sorted: true, searched: true},
			{name: "domain", about: "Domain of its website.", typ: text, max: 120, filter: one, searched: true},
			{name: "industry", about: "What the company does.", typ: enum, of: []string{"software", "logistics", "retail", "manufacturing", "health", "finance", "energy", "education", "media"}, filter: many, sorted: true},
			{name: "size", about: "How many people work there.", typ: enum, of: []string{"1-10", "11-50", "51-200", "201-1000", "1001+"}, filter: many},
			{name: "city", about: "City of its head office.", typ: text, max: 80, filter: many, sorted: true, searched: true},
			{name: "country", about: "Country, in English.", typ: text, max: 80, filter: many, sorted: true, searched: true},
			{name: "plan", about: "Plan of the product that the company uses.", typ: enum, of: []string{"none", "free", "trial", "team", "enterprise"}, fresh: "none", filter: many, sorted: true},
			{name: "active_users", about: "People of the company who used the product in the last 30 days.", typ: whole, max: 1_000_000, fresh: 0, filter: spans, sorted: true},
			{name: "description", about: "What is good to know about the company.", typ: long, max: 2000},
		}, stamps...),
	},
	{
		name: "projects", one: "project", about: "Campaigns that look for leads and win them.", sort: "due_on", keyed: true,
		groups: []string{"status", "owner_id"}, sum: "target",
		fields: append([]field{
			{name: "name", about: "Name of the project.", typ: text, min: 1, max: 120, needed: true, filter: one, sorted: true, searched: true},
			{name: "description", about: "What the project is for.", typ: long, max: 2000, searched: true},
			{name: "status", about: "Whether the project is under way.", typ: enum, of: []string{"planned", "active", "paused", "done"}, fresh: "planned", filter: many, sorted: true},
			{name: "region", about: "Where the project looks for leads.", typ: text, max: 80, filter: many, searched: true},
			{name: "owner_id", about: "User who leads the project.", typ: ref, to: "users", as: "owner", filter: many},
			{name: "target", about: "How many leads the project is to win.", typ: whole, max: 100_000, fresh: 0, filter: spans, sorted: true},
			{name: "starts_on", about: "First day.", typ: day, filter: spans, span: "starts", sorted: true},
			{name: "due_on", about: "Last day.", typ: day, filter: spans, span: "due", sorted: true},
		}, stamps...),
	},
	{
		name: "notes", one: "note", about: "What was said and agreed, about a lead, a company or a project.", sort: "-created_at",
		oneOf: []string{"lead_id", "company_id", "project_id"},
		fields: append([]field{
			{name: "text", about: "The note.", typ: long, min: 1, max: 4000, needed: true, searched: true},
			{name: "lead_id", about: "Lead that the note is about.", typ: ref, to: "leads", as: "lead", filter: many},
			{name: "company_id", about: "Company that the note is about.", typ: ref, to: "companies", as: "company", filter: many},
			{name: "project_id", about: "Project that the note is about.", typ: ref, to: "projects", as: "project", filter: many},
			{name: "author_id", about: "User who wrote the note.", typ: ref, to: "users", as: "author", filter: many},
			{name: "pinned", about: "Whether the note is shown first.", typ: flag, fresh: false, filter: one},
		}, stamps...),
	},
}

func kindOf(name string) *kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	return nil
}

func (k *kind) field(name string) (field, bool) {
	for _, f := range k.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// names are the fields of an answer, in their order.
func (k *kind) names() []string {
	list := []string{"id"}
	for _, f := range k.fields {
		list = append(list, f.name)
		if f.as != "" {
			list = append(list, f.as)
		}
	}
	return list
}
