package crm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// object is a JSON object that keeps its order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Description is the OpenAPI description, as /openapi.json has it.
func Description() []byte { return describe() }

func describe() []byte {
	paths := object{
		{"/api/login", object{{"post", object{
			{"operationId", "login"},
			{"tags", []string{"login"}},
			{"summary", "Log in with email and password"},
			{"security", []any{}},
			{"requestBody", jsonBody(object{
				{"type", "object"},
				{"required", []string{"email", "password"}},
				{"properties", object{{"email", object{{"type", "string"}}}, {"password", object{{"type", "string"}, {"format", "password"}}}}},
			})},
			{"responses", responses("401", "415", "413", "422", "429")("200", "The token, and whose it is.", refTo("Login"))},
		}}}},
		{"/api/logout", object{{"post", object{
			{"operationId", "logout"},
			{"tags", []string{"login"}},
			{"summary", "End the login of this token"},
			{"responses", responses("401", "429")("204", "The token is not accepted any more.", nil)},
		}}}},
		{"/api/me", object{{"get", object{
			{"operationId", "me"},
			{"tags", []string{"login"}},
			{"summary", "Whose the token is, and their organisations"},
			{"responses", responses("401", "429")("200", "The user.", refTo("Me"))},
		}}}},
		{"/api/users", object{{"get", object{
			{"operationId", "list_users"},
			{"tags", []string{"users"}},
			{"summary", "List the members of the organisation"},
			{"description", "Owners and authors are named by these ids."},
			{"parameters", []any{refToParameter("OrgId")}},
			{"responses", responses("401", "403", "422", "429")("200", "The members.", refTo("Users"))},
		}}}},
	}
	schemas := object{
		{"Login", schemaOf([]string{"token", "token_type", "expires_at", "user"}, object{
			{"token", object{{"type", "string"}}},
			{"token_type", object{{"const", "bearer"}}},
			{"expires_at", object{{"type", "string"}, {"format", "date-time"}}},
			{"user", refTo("Account")},
		})},
		{"Account", schemaOf([]string{"id", "name", "email", "orgs"}, account)},
		{"Me", schemaOf([]string{"id", "name", "email", "orgs", "expires_at"}, append(account[:len(account):len(account)], member{"expires_at", object{{"type", []string{"string", "null"}}, {"format", "date-time"}}}))},
		{"Org", schemaOf([]string{"id", "name", "role"}, object{{"id", object{{"type", "string"}}}, {"name", object{{"type", "string"}}}, {"role", roles}})},
		{"User", schemaOf([]string{"id", "name", "email", "role", "you"}, object{
			{"id", object{{"type", "string"}}},
			{"name", object{{"type", "string"}}},
			{"email", object{{"type", "string"}}},
			{"role", roles},
			{"you", object{{"type", "boolean"}, {"description", "Whether it is the user who asks."}}},
		})},
		{"Users", schemaOf([]string{"items", "total"}, object{{"items", object{{"type", "array"}, {"items", refTo("User")}}}, {"total", object{{"type", "integer"}}}})},
	}
	tags := []any{
		object{{"name", "login"}, {"description", "Logins, and who is logged in."}},
		object{{"name", "users"}, {"description", "The members of the organisation."}},
	}
	for _, k := range kinds {
		tags = append(tags, object{{"name", k.name}, {"description", k.about}})
		paths = append(paths, k.paths()...)
		schemas = append(schemas, k.schemas()...)
	}
	schemas = append(schemas,
		member{"Summary", schemaOf([]string{"items", "total", "group_by", "sum_of"}, object{
			{"items", object{{"type", "array"}, {"items", schemaOf([]string{"key", "name", "count", "sum"}, object{
				{"key", object{{"type", []string{"string", "null"}}, {"description", "Value of the field; null: records without one."}}},
				{"name", object{{"type", []string{"string", "null"}}, {"description", "What the key is called."}}},
				{"count", object{{"type", "integer"}}},
				{"sum", object{{"type", "integer"}}},
			})}}},
			{"total", object{{"type", "integer"}}},
			{"group_by", object{{"type", "string"}}},
			{"sum_of", object{{"type", "string"}, {"description", "The number that sum adds up."}}},
		})},
		member{"Refusal", schemaOf([]string{"detail"}, object{{"detail", object{{"type", "string"}}}})},
		member{"Invalid", schemaOf([]string{"detail"}, object{{"detail", object{{"type", "array"}, {"items", schemaOf([]string{"loc", "msg", "type"}, object{
			{"loc", object{{"type", "array"}, {"items", object{{"type", "string"}}}, {"description", "Where the mistake is, such as body and email."}}},
			{"msg", object{{"type", "string"}}},
			{"type", object{{"type", "string"}}},
		})}}}})},
	)
	doc := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "CRM"},
			{"version", "1.0"},
			{"description", "Leads, companies, projects and notes of an organisation."},
		}},
		{"servers", []any{object{{"url", "/"}}}},
		{"security", []any{object{{"bearer", []any{}}}}},
		{"tags", tags},
		{"paths", paths},
		{"components", object{
			{"securitySchemes", object{{"bearer", object{{"type", "http"}, {"scheme", "bearer"}, {"description", "The token of a login."}}}}},
			{"parameters", object{
				{"OrgId", object{{"name", "X-Org-Id"}, {"in", "header"}, {"description", "Organisation that the request is about. Users with one organisation may leave it out."}, {"schema", object{{"type", "string"}}}}},
				{"IdempotencyKey", object{
					{"name", "Idempotency-Key"},
					{"in", "header"},
					{"description", "A text of your own for this request. If it is sent again within 24 hours with the same key, nothing is made twice: the first answer comes again."},
					{"schema", object{{"type", "string"}, {"maxLength", 255}}},
				}},
			}},
			{"responses", refusals},
			{"schemas", schemas},
		}},
	}
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // it is made of plain values
	}
	return append(raw, '\n')
}

var (
	roles   = object{{"type", "string"}, {"enum", []Role{Admin, Editor, Viewer}}}
	account = object{
		{"id", object{{"type", "string"}}},
		{"name", object{{"type", "string"}}},
		{"email", object{{"type", "string"}}},
		{"orgs", object{{"type", "array"}, {"items", refTo("Org")}}},
	}
	refusals = object{
		{"401", refusal("The token is missing, unknown or has expired.", "Refusal")},
		{"403", refusal("The user is not a member of the organisation, or may not do this.", "Refusal")},
		{"404", refusal("The organisation has no such record.", "Refusal")},
		{"409", refusal("It contradicts another record.", "Refusal")},
		{"413", refusal("The body is too large.", "Refusal")},
		{"415", refusal("The body is not JSON.", "Refusal")},
		{"422", refusal("Something is wrong with the request.", "Invalid")},
		{"429", object{
			{"description", "There were too many requests."},
			{"headers", object{{"Retry-After", object{{"description", "Seconds to wait."}, {"schema", object{{"type", "integer"}}}}}}},
			{"content", jsonOf(refTo("Refusal"))},
		}},
		{"503", refusal("The CRM is being maintained.", "Refusal")},
	}
)

func refTo(schema string) object { return object{{"$ref", "#/components/schemas/" + schema}} }
func refToParameter(name string) object {
	return object{{"$ref", "#/components/parameters/" + name}}
}
func jsonOf(schema any) object { return object{{"application/json", object{{"schema", schema}}}} }
func jsonBody(schema any) object {
	return object{{"required", true}, {"content", jsonOf(schema)}}
}

func refusal(about, schema string) object {
	return object{{"description", about}, {"content", jsonOf(refTo(schema))}}
}

func schemaOf(needed []string, properties object) object {
	o := object{{"type", "object"}}
	if len(needed) > 0 {
		o = append(o, member{"required", needed})
	}
	return append(o, member{"properties", properties}, member{"additionalProperties", false})
}

// responses returns what adds the answer of a success to refusals.
func responses(refused ...string) func(status, about string, schema any) object {
	return func(status, about string, schema any) object {
		good := object{{"description", about}}
		if schema != nil {
			good = append(good, member{"content", jsonOf(schema)})
		}
		list := object{{status, good}}
		for _, r := range append(refused, "503") {
			list = append(list, member{r, object{{"$ref", "#/components/responses/" + r}}})
		}
		return list
	}
}

func (k *kind) schema() string { return strings.ToUpper(k.one[:1]) + k.one[1:] }

func (f field) schema(answer bool) object {
	kind := "string"
	switch f.typ {
	case whole:
		kind = "integer"
	case flag:
		kind = "boolean"
	}
	o := object{{"description", f.about}}
	if empty := !f.needed && f.fresh == nil && f.typ != when; empty {
		o = append(o, member{"type", []string{kind, "null"}})
	} else {
		o = append(o, member{"type", kind})
	}
	switch f.typ {
	case day:
		o = append(o, member{"format", "date"})
	case when:
		o = append(o, member{"format", "date-time"})
	case email:
		o = append(o, member{"format", "email"}, member{"maxLength", f.max})
	case enum:
		values := []any{}
		for _, v := range f.of {
			values = append(values, v)
		}
		if !f.needed && f.fresh == nil {
			values = append(values, nil)
		}
		o = append(o, member{"enum", values})
	case whole:
		o = append(o, member{"minimum", f.min}, member{"maximum", f.max})
	case text, long:
		if f.needed {
			o = append(o, member{"minLength", 1})
		}
		o = append(o, member{"maxLength", f.max})
	}
	if f.filledIn() {
		o = append(o, member{"readOnly", true})
	}
	if f.fresh != nil && !answer {
		o = append(o, member{"default", f.fresh})
	}
	return o
}

// schemas are those of a record, of a new one, of a change and of a list.
func (k *kind) schemas() object {
	shown := object{{"id", object{{"description", "Id, such as " + k.one + "-12."}, {"type", "string"}, {"readOnly", true}}}}
	var made, changed object
	var needed []string
	for _, f := range k.fields {
		shown = append(shown, member{f.name, f.schema(true)})
		if f.as != "" {
			shown = append(shown, member{f.as, object{{"description", "Name of what " + f.name + " names."}, {"type", []string{"string", "null"}}, {"readOnly", true}}})
		}
		if f.filledIn() {
			continue
		}
		made = append(made, member{f.name, f.schema(false)})
		changed = append(changed, member{f.name, f.schema(true)})
		if f.needed {
			needed = append(needed, f.name)
		}
	}
	name := k.schema()
	change := append(schemaOf(nil, changed), member{"minProperties", 1})
	return object{
		{name, append(schemaOf([]string{"id"}, shown), member{"description", "Answers have all fields, or those that were asked for."})},
		{name + "Create", schemaOf(needed, made)},
		{name + "Update", append(change, member{"description", "Fields that are left out stay as they are."})},
		{name + "List", schemaOf([]string{"items", "total", "page", "page_size", "pages"}, object{
			{"items", object{{"type", "array"}, {"items", refTo(name)}}},
			{"total", object{{"type", "integer"}, {"description", "How many records fit, on all pages."}}},
			{"page", object{{"type", "integer"}}},
			{"page_size", object{{"type", "integer"}}},
			{"pages", object{{"type", "integer"}}},
		})},
	}
}

func queryOf(name, about string, schema object) object {
	return object{{"name", name}, {"in", "query"}, {"description", about}, {"schema", schema}}
}

// listOf is a parameter whose values are separated by commas.
func listOf(name, about string, items object) object {
	return append(queryOf(name, about, object{{"type", "array"}, {"items", items}}), member{"explode", false})
}

func enumOf(values []string) object { return object{{"type", "string"}, {"enum", values}} }

// filters are the parameters that choose records.
func (k *kind) filters() (list []any) {
	list = append(list, refToParameter("OrgId"), queryOf("q", "Words that must be in the record.", object{{"type", "string"}, {"maxLength", maxQuery}}))
	for _, f := range k.fields {
		switch f.filter {
		case one:
			schema := object{{"type", "string"}, {"maxLength", maxQuery}}
			if f.typ == flag {
				schema = object{{"type", "boolean"}}
			}
			list = append(list, queryOf(f.name, f.about, schema))
		case many:
			items, about := object{{"type", "string"}}, f.about+" Several values are separated by commas"
			if f.typ == enum {
				items = enumOf(f.of)
				if f.fresh == nil {
					items = enumOf(append(f.of[:len(f.of):len(f.of)], nothing))
				}
			}
			if f.fresh == nil {
				about += "; none stands for records without a value"
			}
			list = append(list, listOf(f.name, about+".", items))
		case spans:
			from, until := f.spanned()
			schema, low, high := object{{"type", "integer"}}, "Least ", "Greatest "
			if f.typ != whole {
				schema, low, high = object{{"type", "string"}, {"format", "date"}}, "First day of ", "Last day of "
			}
			list = append(list, queryOf(from, low+f.name+".", schema), queryOf(until, high+f.name+".", schema))
		case none:
		}
	}
	return list
}

func (k *kind) paths() object {
	at, name := "/api/"+k.name, k.schema()
	id := object{{"name", "id"}, {"in", "path"}, {"required", true}, {"description", "Id of the " + k.one + "."}, {"schema", object{{"type", "string"}}}}
	fields := listOf("fields", "Fields of the answer, separated by commas. Leave it out for all.", enumOf(k.names()))
	var sorts []string
	for _, s := range k.sorts() {
		sorts = append(sorts, s, "-"+s)
	}
	order := append(object{{"type", "array"}, {"items", enumOf(sorts)}}, member{"default", []string{k.sort}})
	op := func(verb, summary string, more ...member) object {
		return append(object{{"operationId", verb}, {"tags", []string{k.name}}, {"summary", summary}}, more...)
	}
	create := []any{refToParameter("OrgId")}
	if k.keyed {
		create = append(create, refToParameter("IdempotencyKey"))
	}
	clash := []string{"401", "403", "413", "415", "422", "429"}
	if k.name == "leads" {
		clash = append(clash, "409")
	}
	gone := []string{"401", "403", "404", "422", "429"}
	if k.name == "companies" {
		gone = append(gone, "409")
	}
	list := object{
		{at, object{
			{"get", op("list_"+k.name, "List "+k.name,
				member{"parameters", append(k.filters(),
					append(queryOf("sort", "Order; a minus puts the greatest first. Several are separated by commas.", order), member{"explode", false}),
					queryOf("page", "Number of the page, from 1.", object{{"type", "integer"}, {"minimum", 1}, {"maximum", 1_000_000}, {"default", 1}}),
					queryOf("page_size", "Records of a page.", object{{"type", "integer"}, {"minimum", 1}, {"maximum", maxPageSize}, {"default", pageSize}}),
					fields)},
				member{"responses", responses("401", "403", "422", "429")("200", "A page of "+k.name+".", refTo(name+"List"))},
			)},
			{"post", op("create_"+k.one, "Create a "+k.one,
				member{"parameters", create},
				member{"requestBody", jsonBody(refTo(name + "Create"))},
				member{"responses", responses(clash...)("201", "The new "+k.one+".", refTo(name))},
			)},
		}},
		{at + "/{id}", object{
			{"get", op("get_"+k.one, "Get a "+k.one,
				member{"parameters", []any{id, refToParameter("OrgId"), fields}},
				member{"responses", responses("401", "403", "404", "422", "429")("200", "The "+k.one+".", refTo(name))},
			)},
			{"put", op("update_"+k.one, "Change fields of a "+k.one,
				member{"parameters", []any{id, refToParameter("OrgId")}},
				member{"requestBody", jsonBody(refTo(name + "Update"))},
				member{"responses", responses(append(clash, "404")...)("200", "The "+k.one+" as it is now.", refTo(name))},
			)},
			{"delete", op("delete_"+k.one, "Delete a "+k.one, member{"description", k.deletes()},
				member{"parameters", []any{id, refToParameter("OrgId")}},
				member{"responses", responses(gone...)("204", "It is deleted.", nil)},
			)},
		}},
	}
	if len(k.groups) > 0 {
		list = append(list, member{at + "/summary", object{{"get", op("summarize_"+k.name, fmt.Sprintf("Count %s by a field", k.name),
			member{"description", "Counts the " + k.name + " of each value of a field, and adds up " + k.sum + "."},
			member{"parameters", append(k.filters(), append(queryOf("group_by", "Field whose values are counted.", enumOf(k.groups)), member{"required", true}))},
			member{"responses", responses("401", "403", "422", "429")("200", "A line for each value, the most frequent first.", refTo("Summary"))},
		)}}})
	}
	if k.name == "leads" {
		list = append(list, member{at + "/{id}/unsubscribe", object{
			{"get", op("unsubscribe_lead", "Unsubscribe a lead from mails",
				member{"description", "This changes the lead although it is a GET: mails have it as a link."},
				member{"x-effect", "write"},
				member{"parameters", []any{id, refToParameter("OrgId")}},
				member{"responses", responses("401", "403", "404", "422", "429")("200", "The lead as it is now.", refTo(name))},
			)},
		}})
	}
	return list
}

func (k *kind) deletes() string {
	switch k.name {
	case "leads":
		return "The notes about the lead are deleted, too."
	case "companies":
		return "The notes about the company are deleted, too. A company with leads cannot be deleted."
	case "projects":
		return "The notes about the project are deleted, too. Its leads stay, without a project."
	}
	return "It cannot be restored."
}
