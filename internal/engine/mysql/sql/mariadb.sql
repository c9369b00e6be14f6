-- Our account and the customer's, and the guarded procedures through which
-- dbadmin manages users: MariaDB's own CREATE USER would let it take over any
-- account, ours included. The procedures run as our account.
FLUSH PRIVILEGES;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_CREATE_USER';
SET NAMES utf8mb4;

CREATE USER 'steward'@'localhost' IDENTIFIED {{verifier}};
GRANT ALL PRIVILEGES ON *.* TO 'steward'@'localhost' WITH GRANT OPTION;
DELETE FROM mysql.global_priv WHERE User = '';
DROP DATABASE IF EXISTS test;
DELETE FROM mysql.db WHERE Db LIKE 'test%';
FLUSH PRIVILEGES;

CREATE DATABASE IF NOT EXISTS defaultdb CHARACTER SET utf8mb4;
CREATE USER 'dbadmin'@'%' IDENTIFIED VIA mysql_native_password USING '*0000000000000000000000000000000000000000' ACCOUNT LOCK;

CREATE DATABASE steward CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE steward.installed (
  version VARCHAR(64) NOT NULL
) ENGINE = InnoDB COMMENT 'The version whose system tables these are';
INSERT INTO steward.installed SELECT VERSION();

DELIMITER $$

-- Refuses every name that isn't a customer's to manage.
CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.check_user(name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  DETERMINISTIC NO SQL SQL SECURITY DEFINER
BEGIN
  IF name IS NULL OR name NOT REGEXP '\\A[A-Za-z0-9][A-Za-z0-9_-]{0,31}\\z' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'A user name has 1-32 letters, digits, - and _, and starts with a letter or digit';
  END IF;
  IF LOWER(name) IN ('dbadmin', 'root', {{reserved}}'mysql', 'public', 'current_user', 'current_role', 'session_user', 'system_user', 'none')
      OR LOWER(name) LIKE 'steward%' OR LOWER(name) LIKE 'mariadb%' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'This user name is reserved';
  END IF;
END$$

CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.check_user_exists(name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  READS SQL DATA SQL SECURITY DEFINER
BEGIN
  CALL steward.check_user(name);
  IF NOT EXISTS (SELECT 1 FROM mysql.global_priv p WHERE p.User = name AND p.Host = '%') THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'There is no such user';
  END IF;
END$$

-- Refuses our schemas, and patterns in place of a name.
CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.check_database(name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  READS SQL DATA SQL SECURITY DEFINER
BEGIN
  IF name IS NULL OR name NOT REGEXP '\\A[A-Za-z0-9_$-]{1,64}\\z' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'A database name has 1-64 letters, digits, -, _ and $ here';
  END IF;
  IF LOWER(name) IN ('mysql', 'sys', 'steward', 'information_schema', 'performance_schema') THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'This database is reserved';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM information_schema.SCHEMATA s WHERE s.SCHEMA_NAME COLLATE utf8mb3_bin = name) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'There is no such database';
  END IF;
END$$

CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.check_password(password VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  DETERMINISTIC NO SQL SQL SECURITY DEFINER
BEGIN
  IF password IS NULL OR CHAR_LENGTH(password) NOT BETWEEN 8 AND 255 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'A password has 8-255 characters';
  END IF;
END$$

-- What is logged is the hash, never the password.
CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.create_user(name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, password VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  MODIFIES SQL DATA SQL SECURITY DEFINER COMMENT 'create_user(name, password): a user who may log in, with no rights yet'
BEGIN
  CALL steward.check_user(name);
  CALL steward.check_password(password);
  EXECUTE IMMEDIATE CONCAT('CREATE USER ', QUOTE(name), '@''%'' IDENTIFIED VIA mysql_native_password USING ', QUOTE(PASSWORD(password)));
END$$

CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.set_password(name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, password VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  MODIFIES SQL DATA SQL SECURITY DEFINER COMMENT 'set_password(name, password): a new password for a user'
BEGIN
  CALL steward.check_user_exists(name);
  CALL steward.check_password(password);
  EXECUTE IMMEDIATE CONCAT('ALTER USER ', QUOTE(name), '@''%'' IDENTIFIED VIA mysql_native_password USING ', QUOTE(PASSWORD(password)));
END$$

CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.drop_user(name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  MODIFIES SQL DATA SQL SECURITY DEFINER COMMENT 'drop_user(name): the user and all grants to it go'
BEGIN
  CALL steward.check_user_exists(name);
  EXECUTE IMMEDIATE CONCAT('DROP USER ', QUOTE(name), '@''%''');
END$$

-- In a grant, _ stands for any character unless escaped.
CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.grant_database(db VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  MODIFIES SQL DATA SQL SECURITY DEFINER COMMENT 'grant_database(database, name): all rights on a database'
BEGIN
  CALL steward.check_database(db);
  CALL steward.check_user_exists(name);
  IF db REGEXP '^(xtrabackup_|mariadb_backup_|ib_logfile|undo[01]..$)' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'This is a name of the server''s own files';
  END IF;
  EXECUTE IMMEDIATE CONCAT('GRANT ALL PRIVILEGES ON `', REPLACE(db, '_', '\\_'), '`.* TO ', QUOTE(name), '@''%''');
END$$

CREATE DEFINER = 'steward'@'localhost' PROCEDURE steward.revoke_database(db VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
  MODIFIES SQL DATA SQL SECURITY DEFINER COMMENT 'revoke_database(database, name): takes the rights on a database back'
BEGIN
  CALL steward.check_database(db);
  CALL steward.check_user_exists(name);
  EXECUTE IMMEDIATE CONCAT('REVOKE ALL PRIVILEGES ON `', REPLACE(db, '_', '\\_'), '`.* FROM ', QUOTE(name), '@''%''');
END$$

DELIMITER ;
