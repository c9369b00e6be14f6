// How programs connect to a database.
import type { DatabaseView } from "./api";
import { mysqlName, type Engine } from "./db";
import { T } from "./text";

export type Kind = "psql" | "mysql" | "uri" | "env" | "yaml" | "go" | "rust" | "node" | "python" | "java" | "php" | "dotnet" | "rails";

export interface Target {
  host: string;
  port: number;
  user: string;
  // undefined until it is shown.
  password?: string;
  database: string;
  ca: string;
}

export function kinds(engine: Engine): Kind[] {
  return [engine === "postgresql" ? "psql" : "mysql", "uri", "env", "yaml", "go", "rust", "node", "python", "java", "php", "dotnet", "rails"];
}

// shell quotes for a POSIX shell.
function shell(text: string): string {
  return /^[\w./:=@%+-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

export function connectText(kind: Kind, db: DatabaseView, t: Target): string {
  const password = t.password ?? "PASSWORD";
  const quoted = JSON.stringify(password);
  const uri = encodeURIComponent(password);
  return db.engine === "postgresql" ? postgresql(kind, t, password, quoted, uri) : mysql(kind, db, t, password, quoted, uri);
}

function postgresql(kind: Kind, t: Target, password: string, quoted: string, uri: string): string {
  const dsn = `host=${t.host} port=${t.port} user=${t.user} dbname=${t.database} sslmode=verify-full sslrootcert=${t.ca}`;
  const url = `postgresql://${t.user}:${uri}@${t.host}:${t.port}/${t.database}?sslmode=verify-full&sslrootcert=${encodeURIComponent(t.ca)}`;
  switch (kind) {
    case "psql":
      return `PGPASSWORD=${shell(password)} psql '${dsn}'`;
    case "uri":
      return url;
    case "env":
      return `PGHOST=${t.host}\nPGPORT=${t.port}\nPGUSER=${t.user}\nPGPASSWORD=${shell(password)}\nPGDATABASE=${t.database}\nPGSSLMODE=verify-full\nPGSSLROOTCERT=${t.ca}`;
    case "yaml":
      return `host: ${t.host}\nport: ${t.port}\nuser: ${t.user}\npassword: ${quoted}\ndatabase: ${t.database}\nsslmode: verify-full\nsslrootcert: ${t.ca}`;
    case "go":
      return `db, err := sql.Open("pgx", ${JSON.stringify(url)})`;
    case "rust":
      return `let pool = sqlx::PgPool::connect(${JSON.stringify(url)}).await?;`;
    case "node":
      return `import fs from "node:fs";\nimport pg from "pg";\n\nconst pool = new pg.Pool({\n  host: "${t.host}", port: ${t.port}, user: "${t.user}", password: ${quoted}, database: "${t.database}",\n  ssl: { ca: fs.readFileSync("${t.ca}", "utf8") },\n});`;
    case "python":
      return `import psycopg\n\nconnection = psycopg.connect(\n    "${dsn}",\n    password=${quoted},\n)`;
    case "java":
      return `var properties = new java.util.Properties();\nproperties.put("user", "${t.user}");\nproperties.put("password", ${quoted});\nvar connection = java.sql.DriverManager.getConnection(\n    "jdbc:postgresql://${t.host}:${t.port}/${t.database}?sslmode=verify-full&sslrootcert=${t.ca}", properties);`;
    case "php":
      return `$db = new PDO("pgsql:host=${t.host};port=${t.port};dbname=${t.database};sslmode=verify-full;sslrootcert=${t.ca}", "${t.user}", ${php(password)});`;
    case "dotnet":
      return `await using var source = NpgsqlDataSource.Create(\n    "Host=${t.host};Port=${t.port};Username=${t.user};Password=${password.replaceAll('"', '\\"')};Database=${t.database};SSL Mode=VerifyFull;Root Certificate=${t.ca}");`;
    default:
      return `production:\n  adapter: postgresql\n  host: ${t.host}\n  port: ${t.port}\n  username: ${t.user}\n  password: ${quoted}\n  database: ${t.database}\n  sslmode: verify-full\n  sslrootcert: ${t.ca}`;
  }
}

function php(text: string): string {
  return "'" + text.replaceAll("\\", "\\\\").replaceAll("'", "\\'") + "'";
}

function mysql(kind: Kind, db: DatabaseView, t: Target, password: string, quoted: string, uri: string): string {
  const maria = mysqlName(db.version) === "MariaDB";
  const client = maria ? "mariadb" : "mysql";
  const verified = `--ssl-ca=${t.ca} ${maria ? "--ssl-verify-server-cert" : "--ssl-mode=VERIFY_IDENTITY"}`;
  const url = `mysql://${t.user}:${uri}@${t.host}:${t.port}/${t.database}?ssl-mode=VERIFY_IDENTITY&ssl-ca=${encodeURIComponent(t.ca)}`;
  switch (kind) {
    case "uri":
      return url;
    case "env":
      // The variables that clients read say nothing of TLS.
      return `# ${T.connect.noVariable(client)}\n# ${client} --user=$MYSQL_USER ${verified} $MYSQL_DATABASE\nMYSQL_HOST=${t.host}\nMYSQL_TCP_PORT=${t.port}\nMYSQL_USER=${t.user}\nMYSQL_PWD=${shell(password)}\nMYSQL_DATABASE=${t.database}`;
    case "yaml":
      return `host: ${t.host}\nport: ${t.port}\nuser: ${t.user}\npassword: ${quoted}\ndatabase: ${t.database}\nssl_ca: ${t.ca}`;
    case "go":
      return `pool := x509.NewCertPool()\nca, _ := os.ReadFile("${t.ca}")\npool.AppendCertsFromPEM(ca)\nmysql.RegisterTLSConfig("steward", &tls.Config{RootCAs: pool})\ndb, err := sql.Open("mysql", ${JSON.stringify(`${t.user}:${password}@tcp(${t.host}:${t.port})/${t.database}?tls=steward`)})`;
    case "rust":
      return `let pool = sqlx::MySqlPool::connect(${JSON.stringify(url)}).await?;`;
    case "node":
      return `import fs from "node:fs";\nimport mysql from "mysql2/promise";\n\nconst pool = mysql.createPool({\n  host: "${t.host}", port: ${t.port}, user: "${t.user}", password: ${quoted}, database: "${t.database}",\n  ssl: { ca: fs.readFileSync("${t.ca}", "utf8") },\n});`;
    case "python":
      return `import mysql.connector\n\nconnection = mysql.connector.connect(\n    host="${t.host}", port=${t.port}, user="${t.user}", password=${quoted},\n    database="${t.database}", ssl_ca="${t.ca}", ssl_verify_identity=True,\n)`;
    case "java":
      return `// MariaDB Connector/J, which takes the certificate as it is, for MySQL too\nvar connection = java.sql.DriverManager.getConnection(\n    "jdbc:mariadb://${t.host}:${t.port}/${t.database}?sslMode=verify-full&serverSslCert=${t.ca}",\n    "${t.user}", ${quoted});`;
    case "php":
      return `$db = new PDO("mysql:host=${t.host};port=${t.port};dbname=${t.database}", "${t.user}", ${php(password)}, [\n    PDO::MYSQL_ATTR_SSL_CA => "${t.ca}",\n]);`;
    case "dotnet":
      return `await using var source = new MySqlDataSource(\n    "Server=${t.host};Port=${t.port};User ID=${t.user};Password=${password.replaceAll('"', '\\"')};Database=${t.database};SSL Mode=VerifyFull;SSL CA=${t.ca}");`;
    case "rails":
      return `production:\n  adapter: mysql2\n  host: ${t.host}\n  port: ${t.port}\n  username: ${t.user}\n  password: ${quoted}\n  database: ${t.database}\n  sslca: ${t.ca}\n  ssl_mode: verify_identity`;
    default:
      return `MYSQL_PWD=${shell(password)} ${client} --host=${t.host} --port=${t.port} --user=${t.user} ${verified} ${t.database}`;
  }
}
