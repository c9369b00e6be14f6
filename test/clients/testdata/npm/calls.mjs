// Calls everything that a version of @linode/api-v4 offers for databases, the
// managed area, events, profile and account, and prints what came of each call.
//
//   node calls.mjs linode-newest http://127.0.0.1:8080 http://127.0.0.1:9090/to-be-watched < token
import { readFileSync } from 'node:fs';
import { load } from './load.mjs';

const [name, origin, watched] = process.argv.slice(2);
const token = readFileSync(0, 'utf8').trim();
const client = load(name);

// Where the client's own address is, steward's goes.
client.baseRequest.interceptors.request.use((config) => {
  config.url = config.url.replace('https://api.linode.com', origin);
  config.baseURL = undefined;
  config.headers = Object.assign(config.headers ?? {}, { Authorization: `Bearer ${token}` });
  return config;
});

const results = [];
// call records one of the client's calls. Calls that this version doesn't have
// are left out. check, if given, says what an answer must be like.
async function call(area, fn, args = [], check = () => true) {
  if (typeof client[fn] !== 'function') return undefined;
  try {
    const answer = await client[fn](...args);
    const fits = check(answer ?? {});
    results.push({ area, call: fn, problem: fits ? '' : `unexpected: ${JSON.stringify(answer)}` });
    return answer;
  } catch (e) {
    results.push({ area, call: fn, problem: Array.isArray(e) ? JSON.stringify(e) : `${e?.stack ?? e} ${JSON.stringify(e?.response?.data)}` });
    return undefined;
  }
}

// raw is for what the clients have no call for.
async function raw(method, path, body) {
  const r = await fetch(origin + path, {
    method, body: body && JSON.stringify(body),
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
  });
  if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${await r.text()}`);
  return r.json();
}

// offered tells whether the server's document has an operation.
async function offered(path) {
  return (await (await fetch(`${origin}/openapi.yaml`)).text()).includes(path);
}

// active waits until a database is in a status.
async function active(engine, id, status = 'active') {
  for (let end = Date.now() + 180_000; ; await new Promise((done) => setTimeout(done, 200))) {
    const found = await client.getEngineDatabase(engine, id);
    if (found.status === status) return;
    if (found.status === 'failed' || Date.now() > end) throw new Error(`database ${id} is ${found.status}, not ${status}`);
  }
}

const page = (p) => Array.isArray(p.data) && p.page === 1 && p.pages >= 1 && typeof p.results === 'number';
const some = (p) => page(p) && p.data.length > 0;
const time = (t) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/.test(t);

async function catalog() {
  const engines = await call('catalog', 'getDatabaseEngines', [], some);
  await call('catalog', 'getDatabaseEngine', ['postgresql/15'], (e) => e.id === 'postgresql/15' && e.version === '15');
  await call('catalog', 'getDatabaseTypes', [], some);
  await call('catalog', 'getDatabaseType', ['g6-nanode-1'], (t) => t.memory === 1024 && t.engines.mysql[0].quantity === 1);
  await call('catalog', 'getRegions', [], some);
  await call('catalog', 'getRegionAvailabilities', [], some);
  await call('catalog', 'getRegionAvailability', ['local'], (a) => a.length > 0 && a.every((p) => p.region === 'local' && p.available));
  await call('catalog', 'getRegion', ['local'], (r) => r.capabilities.includes('Managed Databases'));
  await call('catalog', 'getLinodeTypes', [], some);
  await call('catalog', 'getType', ['g6-nanode-1'], (t) => t.vcpus === 1);
  return engines;
}

async function database(engine, id) {
  const area = `databases, ${engine}`;
  const label = `js-${engine}-${name.slice(-6)}`;
  const made = await call(area, 'createDatabase', [engine, {
    label, region: 'local', type: 'g6-nanode-1', engine: id, cluster_size: 1, allow_list: ['127.0.0.1'],
    encrypted: false, ssl_connection: true, replication_type: 'none',
    root_password: 'asked for by @linode/validation 0.7.0, and ignored',
  }], (d) => d.status === 'provisioning' && d.hosts.primary === null && time(d.created));
  if (!made) return;
  await active(engine, made.id);
  await call(area, 'getDatabases', [{}, { label }], (p) => some(p) && p.data[0].instance_uri === `/v4/databases/${engine}/instances/${made.id}`);
  await call(area, 'getEngineDatabases', [engine, { page: 1, page_size: 25 }, { status: 'active' }], some);
  await call(area, 'getEngineDatabase', [engine, made.id], (d) => d.port > 0 && d.hosts.primary === '127.0.0.1');
  await call(area, 'getDatabaseEngineConfig', [engine], (c) => typeof c === 'object');
  await call(area, 'getDatabaseCredentials', [engine, made.id], (c) => c.username === 'dbadmin' && c.password.length === 24);
  await call(area, 'getSSLFields', [engine, made.id], (s) => Buffer.from(s.ca_certificate, 'base64').toString().startsWith('-----BEGIN CERTIFICATE'));
  await call(area, 'updateDatabase', [engine, made.id, { label: `${label}-2`, allow_list: ['127.0.0.1', '10.0.0.0/8'] }], (d) => d.label === `${label}-2` && d.status === 'updating');
  await active(engine, made.id);
  await call(area, 'patchDatabase', [engine, made.id]);
  await active(engine, made.id);
  await call(area, 'suspendDatabase', [engine, made.id]);
  if (client.resumeDatabase) await active(engine, made.id, 'suspended');
  await call(area, 'resumeDatabase', [engine, made.id]);
  await active(engine, made.id);
  await call(area, 'resetDatabaseCredentials', [engine, made.id]);
  await active(engine, made.id);
  await raw('POST', `/v4/databases/${engine}/instances/${made.id}/backups`, { label: 'kept' });
  await active(engine, made.id);
  const backups = await call(area, 'getDatabaseBackups', [engine, made.id], (p) => some(p) && p.data[0].type === 'snapshot');
  const backup = backups?.data[0].id;
  await call(area, 'getDatabaseBackup', [engine, made.id, backup], (b) => b.label === 'kept' && time(b.created));
  if (client.legacyRestoreWithBackup) {
    await call(area, 'legacyRestoreWithBackup', [engine, made.id, backup]);
    await active(engine, made.id);
    // The newest client restores into a new database: a fork.
    const fork = await call(area, 'restoreWithBackup', [engine, {
      fork: { source: made.id }, region: 'local', private_network: null,
    }], (d) => d.fork.source === made.id && d.label.endsWith('-fork') && d.type === 'g6-nanode-1');
    if (fork) {
      await active(engine, fork.id);
      await client.deleteDatabase(engine, fork.id);
    }
  } else {
    await call(area, 'restoreWithBackup', [engine, made.id, backup]);
    await active(engine, made.id);
  }
  await call(area, 'deleteDatabase', [engine, made.id]);
}

async function managed() {
  const area = 'managed';
  const contact = await call(area, 'createContact', [{ name: `On call ${name}`, email: 'oncall@example.org', phone: { primary: '555-123-4567', secondary: null }, group: `ops-${name}` }], (c) => c.id > 0 && time(c.updated));
  await call(area, 'getManagedContacts', [], some);
  if (contact) {
    await call(area, 'getManagedContact', [contact.id], (c) => c.email === 'oncall@example.org');
    await call(area, 'updateContact', [contact.id, { name: 'Night shift', email: 'oncall@example.org' }], (c) => c.name === 'Night shift' && c.email === 'oncall@example.org');
  }
  const credential = await call(area, 'createCredential', [{ label: `root of ${name}`, username: 'root', password: 'a secret' }], (c) => c.last_decrypted === null && !('password' in c));
  await call(area, 'getCredentials', [], some);
  if (credential) {
    await call(area, 'getCredential', [credential.id], (c) => c.label === `root of ${name}`);
    await call(area, 'updateCredential', [credential.id, { label: `admin of ${name}` }], (c) => c.label === `admin of ${name}`);
    await call(area, 'updatePassword', [credential.id, { username: 'admin', password: 'another secret' }]);
  }
  await call(area, 'getSSHPubKey', [], (k) => k.ssh_key.startsWith('ssh-ed25519 '));
  const monitor = {
    label: `shop of ${name}`, service_type: 'url', address: watched, timeout: 5, region: 'local', body: '', notes: 'call first',
    consultation_group: contact ? contact.group : '', credentials: credential ? [credential.id] : [],
  };
  const service = await call(area, 'createServiceMonitor', [monitor], (s) => s.status === 'pending' && time(s.created));
  await call(area, 'getServices', [], some);
  if (service) {
    await call(area, 'getServiceMonitor', [service.id], (s) => s.label === `shop of ${name}`);
    await call(area, 'updateServiceMonitor', [service.id, { ...monitor, timeout: 6 }], (s) => s.timeout === 6);
    await call(area, 'disableServiceMonitor', [service.id], (s) => s.status === 'disabled');
    await call(area, 'enableServiceMonitor', [service.id], (s) => s.status === 'pending');
  }
  await call(area, 'getManagedIssues', [], page);
  if (await offered('/v4/managed/stats:')) await call(area, 'getManagedStats', [], (s) => ['cpu', 'disk', 'net_in', 'net_out', 'swap'].every((k) => Array.isArray(s.data[k])));
  const compute = (await raw('GET', '/v4/managed/linode-settings')).data[0];
  if (compute) await call(area, 'updateLinodeSettings', [compute.id, { ssh: { access: true, user: 'root', ip: 'any', port: 22 } }], (s) => s.ssh.user === 'root');
  if (service) await call(area, 'deleteServiceMonitor', [service.id]);
  if (credential) await call(area, 'deleteCredential', [credential.id]);
  if (contact) await call(area, 'deleteContact', [contact.id]);
}

async function events() {
  const found = await call('events', 'getEvents', [{}, { 'entity.type': 'database' }], some);
  const event = found?.data[0];
  if (!event) return;
  await call('events', 'getEvent', [event.id], (e) => e.action === event.action && e.percent_complete !== undefined);
  await call('events', 'markEventSeen', [event.id]);
  await call('events', 'markEventRead', [event.id]);
}

async function profile() {
  const area = 'profile';
  await call(area, 'getProfile', [], (p) => p.username === 'admin');
  const email = `${name}@example.org`;
  await call(area, 'updateProfile', [{ email }], (p) => p.email === email);
  await call(area, 'updateUserPreferences', [{ theme: name }], (p) => p.theme === name);
  await call(area, 'getUserPreferences', [], (p) => p.theme === name);
  await call(area, 'getLogins', [], some);
  await call(area, client.getMyGrants ? 'getMyGrants' : 'listGrants', []);
  const made = await call(area, 'createPersonalAccessToken', [{ label: `of ${name}`, scopes: 'databases:read_only events:read_only', expiry: '2099-01-01T00:00:00' }], (t) => t.token.length === 64);
  await call(area, 'getPersonalAccessTokens', [], some);
  if (made) {
    await call(area, 'getPersonalAccessToken', [made.id], (t) => t.token.length === 16 && t.scopes === 'databases:read_only events:read_only');
    await call(area, 'updatePersonalAccessToken', [made.id, { label: 'again' }], (t) => t.label === 'again');
    await call(area, 'deletePersonalAccessToken', [made.id]);
  }
  const apps = await call(area, 'getAppTokens', [], some);
  if (apps?.data[0]) {
    await call(area, 'getAppToken', [apps.data[0].id], (a) => a.scopes === 'databases:read_only');
    await call(area, 'deleteAppToken', [apps.data[0].id]);
  }
}

async function account() {
  const area = 'account';
  await call(area, 'getAccountInfo', [], (a) => a.euuid.length === 36 && time(a.active_since));
  await call(area, 'getAccountSettings', [], (s) => s.managed === true);
  await call(area, 'getNotifications', [], page);
  await call(area, 'getAccountMaintenance', [], page);
  await call(area, 'getChildAccounts', [{}], page);
  await call(area, 'getAccountAvailabilities', [], some);
  await call(area, 'getAccountAvailability', ['local'], (a) => a.available.includes('Managed Databases'));
  const logins = await call(area, 'getAccountLogins', [], some);
  if (logins?.data[0]) await call(area, 'getAccountLogin', [logins.data[0].id], (l) => l.username === 'admin' && time(l.datetime));
  const username = `user-${name}`;
  await call(area, 'createUser', [{ username, email: 'user@example.org', restricted: true }], (u) => u.username === username && u.restricted);
  await call(area, 'getUsers', [], some);
  await call(area, 'getUser', [username], (u) => u.email === 'user@example.org');
  await call(area, 'updateUser', [username, { email: 'again@example.org' }], (u) => u.email === 'again@example.org');
  await call(area, 'getGrants', [username], (g) => g.global.add_databases === false);
  await call(area, 'updateGrants', [username, { global: { add_databases: true, account_access: 'read_only' } }],
    (g) => g.global.add_databases === true && g.global.account_access === 'read_only' && Array.isArray(g.linode));
  await call(area, 'deleteUser', [username]);
  const made = await call(area, 'createOAuthClient', [{ label: name, redirect_uri: 'https://app.example.org/cb', public: false }], (c) => c.secret.length === 64);
  await call(area, 'getOAuthClients', [], some);
  if (made) {
    await call(area, 'getOAuthClient', [made.id], (c) => c.status === 'active' && c.secret !== made.secret);
    await call(area, 'updateOAuthClient', [made.id, { label: `${name} again` }], (c) => c.label === `${name} again`);
    await call(area, 'resetOAuthClientSecret', [made.id], (c) => c.secret.length === 64 && c.secret !== made.secret);
    await call(area, 'deleteOAuthClient', [made.id]);
  }
}

// area runs a part; what it can't get over is one more result.
async function area(what, part) {
  try {
    await part();
  } catch (e) {
    results.push({ area: what, call: '(the rest)', problem: String(e?.stack ?? e) });
  }
}

await area('catalog', catalog);
await Promise.all([
  area('databases, mysql', () => database('mysql', 'mysql/10.11')),
  area('databases, postgresql', () => database('postgresql', 'postgresql/15')),
  area('managed', managed),
]);
await area('events', events);
await area('profile', profile);
await area('account', account);
process.stdout.write(JSON.stringify(results));
