package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linode/linodego"

	"steward/internal/parameter"
	"steward/test/harness"
)

// structure is a type of linodego, and where answers of it are read: one object,
// a page of them, or a list.
type structure struct {
	of    any
	paths []string
}

// structures are those of the areas that steward has.
func structures(mysql, postgresql harness.Database) []structure {
	const databases = "/v4/databases"
	return []structure{
		{linodego.MySQLDatabase{}, []string{databases + "/mysql/instances", mysql.Path()}},
		{linodego.PostgresDatabase{}, []string{databases + "/postgresql/instances", postgresql.Path()}},
		{linodego.Database{}, []string{databases + "/instances"}},
		{linodego.MySQLDatabaseCredential{}, []string{mysql.Path() + "/credentials"}},
		{linodego.PostgresDatabaseCredential{}, []string{postgresql.Path() + "/credentials"}},
		{linodego.MySQLDatabaseSSL{}, []string{mysql.Path() + "/ssl"}},
		{linodego.PostgresDatabaseSSL{}, []string{postgresql.Path() + "/ssl"}},
		{linodego.DatabaseEngine{}, []string{databases + "/engines", databases + "/engines/postgresql%2F15"}},
		{linodego.DatabaseType{}, []string{databases + "/types", databases + "/types/g6-nanode-1"}},
		{linodego.LinodeType{}, []string{"/v4/linode/types", "/v4/linode/types/g6-nanode-1"}},
		{linodego.Region{}, []string{"/v4/regions", "/v4/regions/local"}},
		{linodego.RegionAvailability{}, []string{"/v4/regions/availability", "/v4/regions/local/availability"}},
		{linodego.Account{}, []string{"/v4/account"}},
		{linodego.AccountSettings{}, []string{"/v4/account/settings"}},
		{linodego.AccountAvailability{}, []string{"/v4/account/availability", "/v4/account/availability/local"}},
		{linodego.AccountMaintenance{}, []string{"/v4/account/maintenance"}},
		{linodego.Notification{}, []string{"/v4/account/notifications"}},
		{linodego.Event{}, []string{"/v4/account/events"}},
		{linodego.Login{}, []string{"/v4/account/logins"}},
		{linodego.User{}, []string{"/v4/account/users", "/v4/account/users/admin"}},
		{linodego.UserGrants{}, []string{"/v4/account/users/" + restricted + "/grants"}},
		{linodego.OAuthClient{}, []string{"/v4/account/oauth-clients"}},
		{linodego.Profile{}, []string{"/v4/profile"}},
		{linodego.ProfileLogin{}, []string{"/v4/profile/logins"}},
		{linodego.ProfileApp{}, []string{"/v4/profile/apps"}},
		{linodego.Token{}, []string{"/v4/profile/tokens"}},
	}
}

// TestContract reads what a running steward with something of everything answers
// by linodego's own structures: each of their members is filled in some answer, or
// unfilled says why it isn't. So a member that a newer linodego has is noticed.
func TestContract(t *testing.T) {
	s, mysql, postgresql := everything(t)
	found := members{}
	for _, one := range structures(mysql, postgresql) {
		kind := reflect.TypeOf(one.of)
		for _, path := range one.paths {
			var answer any
			if status, body := s.Call("GET", path, nil, &answer); status != 200 {
				t.Fatalf("%s: %d %s", path, status, body)
			}
			for _, item := range items(answer) {
				found.read(t, kind, item)
			}
		}
		if len(found.below(kind.Name())) == 0 {
			t.Errorf("no answer has a %s", kind.Name())
		}
	}
	for _, complaint := range found.judge() {
		t.Error(complaint)
	}
}

// items are the objects of an answer: a page's, a list's, or itself.
func items(answer any) []any {
	switch a := answer.(type) {
	case []any:
		return a
	case map[string]any:
		if list, ok := a["data"].([]any); ok {
			return list
		}
	}
	return []any{answer}
}

// presence is how much of a member the answers have; more is better.
type presence int

const (
	absent presence = iota
	// empty is null, false, 0, "", [] or {}.
	empty
	filled
)

// members are a structure's members by path, "Region.resolvers.ipv4", with the
// most that an answer has of them.
type members map[string]presence

func (m members) below(prefix string) []string {
	var names []string
	for name := range m {
		if strings.HasPrefix(name, prefix+".") {
			names = append(names, name)
		}
	}
	return names
}

// read notes which members of one object are there. What linodego makes of it
// must have what is filled.
func (m members) read(t *testing.T, kind reflect.Type, item any) {
	t.Helper()
	text, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	decoded := reflect.New(kind)
	if err := json.Unmarshal(text, decoded.Interface()); err != nil {
		t.Errorf("linodego can't read %s: %v\n%s", kind.Name(), err, text)
		return
	}
	m.walk(t, kind.Name(), decoded.Elem(), item)
}

// walk notes a structure's members, and those of the structures in it.
func (m members) walk(t *testing.T, prefix string, decoded reflect.Value, raw any) {
	t.Helper()
	switch decoded.Kind() {
	case reflect.Pointer:
		if !decoded.IsNil() {
			m.walk(t, prefix, decoded.Elem(), raw)
		}
	case reflect.Slice:
		list, _ := raw.([]any)
		for i := range min(len(list), decoded.Len()) {
			m.walk(t, prefix, decoded.Index(i), list[i])
		}
	case reflect.Struct:
		object, ok := raw.(map[string]any)
		if !ok {
			return // a time, which is a text
		}
		for i := range decoded.NumField() {
			if field := decoded.Type().Field(i); field.IsExported() {
				m.note(t, prefix+"."+memberName(field), decoded.Field(i), object, memberName(field))
			}
		}
	}
}

func (m members) note(t *testing.T, path string, decoded reflect.Value, object map[string]any, name string) {
	t.Helper()
	value, there := object[name]
	got := absent
	switch {
	case there && isEmpty(value):
		got = empty
	case there:
		got = filled
		if _, within := value.(map[string]any); decoded.IsZero() && !within {
			t.Errorf("%s is %v, of which linodego reads nothing", path, value)
		}
	}
	m[path] = max(m[path], got)
	m.walk(t, path, decoded, value)
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return value == nil || value == false || value == 0.0 || value == ""
}

var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// memberName is what a field is called in JSON. Of times linodego hides the name,
// since it reads them in a way of its own: they are called as the field is.
func memberName(field reflect.StructField) string {
	if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
		return name
	}
	return strings.ToLower(wordEnd.ReplaceAllString(field.Name, "${1}_$2"))
}

// judge compares what was found with unfilled.
func (m members) judge() []string {
	var complaints []string
	for path, got := range m {
		listed, ok := reasonFor(path)
		switch {
		case ok && listed.most == filled:
			// as it happens
		case got == filled && ok:
			complaints = append(complaints, fmt.Sprintf("%s is filled: take it off the list", path))
		case got != filled && !ok && got == absent:
			complaints = append(complaints, fmt.Sprintf("no answer has a %s: answer it, or say on the list why not", path))
		case got != filled && !ok:
			complaints = append(complaints, fmt.Sprintf("%s is empty in every answer: fill it, or say on the list why not", path))
		case ok && got != listed.most:
			complaints = append(complaints, fmt.Sprintf("%s: the list says %v, found is %v", path, listed.most, got))
		}
	}
	for path := range unfilled {
		if _, known := m[path]; !known {
			complaints = append(complaints, fmt.Sprintf("the list has %s, which linodego doesn't, or of which nothing is there any more", path))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func (p presence) String() string { return []string{"absent", "empty", "filled"}[p] }

// restricted is a user with all grants of the account.
const restricted = "fenced"

// everything is a server with something of everything: databases of both families
// with a backup and a fork, one that has a pending update, an open issue, a user
// who logged in and one with grants.
func everything(t *testing.T) (s *harness.Server, mysql, postgresql harness.Database) {
	engines, menu := t.TempDir(), filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(menu, []byte(catalog), 0o600); err != nil {
		t.Fatal(err)
	}
	s = harness.Prepare(t, harness.OfBuilds("postgresql-15", "mariadb-10"), harness.WithConfig("engines: {folders: ["+engines+"]}\ncatalog: {file: "+menu+"}"))
	builds := map[string][2]string{
		"postgresql/15": {"postgresql-15.17-npm", "postgresql-15.18-npm"},
		"mysql/10.11":   {"mariadb-10.11.18-debian-unpacked", "mariadb-10.11.19-debian-unpacked"},
	}
	for _, b := range builds {
		harness.InstallEngine(t, engines, b[0])
		harness.InstallEngine(t, engines, b[1])
	}
	s.Start()
	waiting := map[string]harness.Database{}
	for engine, b := range builds {
		harness.BeginWith(t, s.StoreURL(), b[0])
		spec := harness.Small("waiting-"+engine[:2], engine)
		spec["encrypted"] = strings.HasPrefix(engine, "mysql")
		waiting[engine] = s.CreateActive(spec)
	}
	harness.BeginWith(t, s.StoreURL(), "")
	allowApplication(t, s)
	mustCall(t, s, "POST", "/v4/account/users", map[string]any{"username": restricted, "email": "f@example.org", "restricted": true})
	mustCall(t, s, "PUT", "/v4/account/users/"+restricted+"/grants", map[string]any{
		"global": allGlobals, "database": []map[string]any{{"id": waiting["postgresql/15"].ID, "permissions": "read_only"}},
	})
	mustCall(t, s, "POST", "/v4/profile/tokens", map[string]any{"label": "ends", "scopes": "databases:read_only", "expiry": "2100-01-01T00:00:00"})
	mustCall(t, s, "POST", "/v4/account/oauth-clients", map[string]any{"label": "A page", "redirect_uri": "https://page.example.org/cb", "public": true})
	openIssue(t, s)
	mysql, postgresql = forked(t, s, waiting["mysql/10.11"]), forked(t, s, waiting["postgresql/15"])
	for _, path := range []string{mysql.Path(), postgresql.Path(), "/v4/account/maintenance", "/v4/account/notifications"} {
		awaitAnswer(t, s, path, func(text string) bool {
			return strings.Contains(text, `"used_disk_size_gb":1`) || strings.Contains(text, `"type":"version_update"`) || strings.Contains(text, "ticket_important")
		})
	}
	var events struct{ Data []linodego.Event }
	s.Call("GET", "/v4/account/events", nil, &events)
	last := events.Data[len(events.Data)-1].ID
	mustCall(t, s, "POST", fmt.Sprintf("/v4/account/events/%d/seen", last), nil)
	mustCall(t, s, "POST", fmt.Sprintf("/v4/account/events/%d/read", last), nil)
	return s, mysql, postgresql
}

// catalog has prices and more, that the built-in one leaves empty.
const catalog = `
types:
  - {id: g6-nanode-1, label: Small, class: nanode, memory: 1024, disk: 25600, vcpus: 1, hourly: 0.02, monthly: 15}
  - {id: g6-old-1, label: Old, class: standard, memory: 2048, disk: 51200, vcpus: 1, hourly: 0.04, monthly: 30, deprecated: true}
regions:
  - {id: local, label: Here, country: ZZ, status: ok, resolvers: {ipv4: 192.0.2.53, ipv6: "2001:db8::53"}, networks: [127.0.0.0/8]}
`

// forked is a fork of a database, with a backup of its own.
func forked(t *testing.T, s *harness.Server, source harness.Database) harness.Database {
	t.Helper()
	engineID := source.Engine + "/" + map[string]string{"mysql": "10.11", "postgresql": "15"}[source.Engine]
	s.Snapshot(source, "kept", "primary")
	asked := harness.Spec{
		"fork": map[string]any{"source": source.ID}, "label": "fork-" + engineID[:2], "engine": engineID, "allow_list": []string{"127.0.0.1"},
		"engine_config": chosen(engineID),
	}
	fork := s.CreateActive(asked)
	s.Snapshot(fork, "own", "primary")
	return fork
}

// chosen has a value that isn't zero, false or empty for every setting that a server takes.
func chosen(engineID string) map[string]any {
	family, series, _ := strings.Cut(engineID, "/")
	server := parameter.Server{Family: family, Series: series}
	config := parameter.Config{}
	for _, p := range parameter.Of(family) {
		switch {
		case !p.OfferedOn(server):
		case p.Name == "mysql.slow_query_log": // refused of encrypted databases, as that one is
		case p.Type == parameter.Boolean:
			config[p.Name] = true
		case p.Example == 0:
			config[p.Name] = p.Maximum
		default:
			config[p.Name] = p.Example
		}
	}
	return config.Sectioned(family)
}

// openIssue watches a port where nobody listens.
func openIssue(t *testing.T, s *harness.Server) {
	t.Helper()
	mustCall(t, s, "POST", "/v4/managed/services", map[string]any{
		"label": "away", "service_type": "tcp", "address": "127.0.0.1:1", "timeout": 1, "region": "local",
	})
}

func mustCall(t *testing.T, s *harness.Server, method, path string, body any) {
	t.Helper()
	if status, text := s.Call(method, path, body, nil); status != 200 {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

func awaitAnswer(t *testing.T, s *harness.Server, path string, ok func(string) bool) {
	t.Helper()
	s.Eventually(path, func() error {
		_, text, err := s.TryCall("GET", path, nil, nil)
		if err == nil && !ok(text) {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
}

// allGlobals are all grants on the account that linodego knows.
var allGlobals = func() map[string]any {
	all := map[string]any{"account_access": "read_write"}
	kind := reflect.TypeFor[linodego.GlobalUserGrants]()
	for field := range kind.Fields() {
		if field.Type.Kind() == reflect.Bool {
			all[memberName(field)] = true
		}
	}
	return all
}()
