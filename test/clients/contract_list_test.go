package clients

import (
	"strings"

	"steward/internal/parameter"
)

// reason says why a member of linodego's isn't filled, and the most that answers
// have of it: filled when that isn't always so.
type reason struct {
	most presence
	why  string
}

// unfilled are the members that no answer fills, each with its reason; settings that
// can't be chosen have theirs in internal/parameter.
var unfilled = map[string]reason{
	"Account.active_promotions":                 {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.address_1":                         {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.address_2":                         {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.balance":                           {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.balance_uninvoiced":                {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.city":                              {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.country":                           {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.credit_card.expiry":                {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.credit_card.last_four":             {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.email":                             {empty, "An account has no address of its own; users do"},
	"Account.first_name":                        {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.last_name":                         {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.phone":                             {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.state":                             {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.tax_id":                            {empty, "Nothing is billed here, and nobody's address is kept"},
	"Account.zip":                               {empty, "Nothing is billed here, and nobody's address is kept"},
	"AccountAvailability.unavailable":           {empty, "All that there is, is available"},
	"AccountMaintenance.maintenance_policy_set": {empty, "Each database's own window says when"},
	"AccountSettings.backups_enabled":           {empty, "A setting of compute instances, which aren't made here"},
	"AccountSettings.longview_subscription":     {empty, "A setting of compute instances, which aren't made here"},
	"AccountSettings.maintenance_policy":        {empty, "Each database's own window says when"},
	"AccountSettings.network_helper":            {empty, "A setting of compute instances, which aren't made here"},
	"Database.private_network":                  {empty, "Private networks aren't offered"},
	"Database.updates.pending.deadline":         {empty, "An update can wait; a certificate's renewal can't"},
	"Event.complete_time":                       {absent, "Of the maintenance of compute instances: a database's is in the account's list"},
	"Event.description":                         {absent, "Of the maintenance of compute instances: a database's is in the account's list"},
	"Event.entity.status":                       {absent, "A state of images and volumes"},
	"Event.maintenance_policy_set":              {absent, "Of the maintenance of compute instances: a database's is in the account's list"},
	"Event.message":                             {filled, "What went well needs no words, but on a busy machine not all does: TestFailover and others read these"},
	"Event.not_before":                          {absent, "Of the maintenance of compute instances: a database's is in the account's list"},
	"Event.rate":                                {empty, "How long something will take is known to nobody"},
	"Event.secondary_entity.status":             {absent, "A state of images and volumes"},
	"Event.source":                              {absent, "Of the maintenance of compute instances: a database's is in the account's list"},
	"Event.start_time":                          {absent, "Of the maintenance of compute instances: a database's is in the account's list"},
	"Event.time_remaining":                      {empty, "How long something will take is known to nobody"},
	"LinodeType.accelerated_devices":            {empty, "A property of compute instances, which aren't made here"},
	"LinodeType.addons.backups.price.hourly":    {empty, "Backups cost nothing extra"},
	"LinodeType.addons.backups.price.monthly":   {empty, "Backups cost nothing extra"},
	"LinodeType.addons.backups.region_prices":   {empty, "Backups cost nothing extra"},
	"LinodeType.gpus":                           {empty, "A property of compute instances, which aren't made here"},
	"LinodeType.network_out":                    {empty, "A property of compute instances, which aren't made here"},
	"LinodeType.region_prices":                  {empty, "A plan has one price, wherever"},
	"LinodeType.successor":                      {empty, "Plans that are deprecated go on; none follows them"},
	"LinodeType.transfer":                       {empty, "A property of compute instances, which aren't made here"},
	"Login.restricted":                          {empty, "True of restricted users: who logs in here isn't one"},
	"MySQLDatabase.engine_config.mysql.information_schema_stats_expiry": {absent, "A setting of MySQL's, and the database here is MariaDB"},
	"MySQLDatabase.engine_config.mysql.innodb_thread_concurrency":       {absent, "A setting of MySQL's, and the database here is MariaDB"},
	"MySQLDatabase.engine_config.mysql.internal_tmp_mem_storage_engine": {absent, "A setting of MySQL's, and the database here is MariaDB"},
	"MySQLDatabase.engine_config.mysql.sql_require_primary_key":         {absent, "A setting of MySQL's, and the database here is MariaDB"},
	"MySQLDatabase.private_network":                                     {empty, "Private networks aren't offered"},
	"MySQLDatabase.updates.pending.deadline":                            {empty, "An update can wait; a certificate's renewal can't"},
	"Notification.body":                                                 {empty, "The message says it all"},
	"OAuthClient.thumbnail_url":                                         {empty, "There are no pictures"},
	"PostgresDatabase.encrypted":                                        {empty, "PostgreSQL has no encryption of its own"},
	"PostgresDatabase.engine_config.pg.pg_partman_bgw.interval":         {absent, "The build that the server here is of comes without pg_partman"},
	"PostgresDatabase.engine_config.pglookout":                          {empty, "None of its settings can be chosen"},
	"PostgresDatabase.private_network":                                  {empty, "Private networks aren't offered"},
	"PostgresDatabase.updates.pending.deadline":                         {empty, "An update can wait; a certificate's renewal can't"},
	"Profile.authorized_keys":                                           {empty, "Users have no keys: they log in to no machine"},
	"Profile.email_notifications":                                       {empty, "No mail is sent to users: contacts get it"},
	"Profile.ip_whitelist_enabled":                                      {empty, "Not offered"},
	"Profile.referrals.code":                                            {empty, "Nobody is rewarded for anybody"},
	"Profile.referrals.completed":                                       {empty, "Nobody is rewarded for anybody"},
	"Profile.referrals.credit":                                          {empty, "Nobody is rewarded for anybody"},
	"Profile.referrals.pending":                                         {empty, "Nobody is rewarded for anybody"},
	"Profile.referrals.total":                                           {empty, "Nobody is rewarded for anybody"},
	"Profile.referrals.url":                                             {empty, "Nobody is rewarded for anybody"},
	"Profile.restricted":                                                {empty, "True of restricted users: who logs in here isn't one"},
	"Profile.two_factor_auth":                                           {empty, "Nobody there has a second factor: TestSecondFactorPage reads it"},
	"Profile.verified_phone_number":                                     {empty, "Not offered"},
	"ProfileApp.thumbnail_url":                                          {empty, "There are no pictures"},
	"ProfileLogin.restricted":                                           {empty, "True of restricted users: who logs in here isn't one"},
	"Region.monitors.alerts":                                            {empty, "Databases are watched as any service is, not by the region"},
	"Region.monitors.metrics":                                           {empty, "Databases are watched as any service is, not by the region"},
	"Region.placement_group_limits":                                     {empty, "There are no placement groups"},
	"User.ssh_keys":                                                     {empty, "Users have no keys: they log in to no machine"},
	"User.tfa_enabled":                                                  {empty, "Nobody there has a second factor: TestSecondFactorPage reads it"},
	"User.verified_phone_number":                                        {empty, "Not offered"},
	"UserGrants.domain":                                                 {empty, "There are none here to grant"},
	"UserGrants.firewall":                                               {empty, "There are none here to grant"},
	"UserGrants.image":                                                  {empty, "There are none here to grant"},
	"UserGrants.linode":                                                 {empty, "There are none here to grant"},
	"UserGrants.longview":                                               {empty, "There are none here to grant"},
	"UserGrants.nodebalancer":                                           {empty, "There are none here to grant"},
	"UserGrants.placement_group":                                        {empty, "There are none here to grant"},
	"UserGrants.stackscript":                                            {empty, "There are none here to grant"},
	"UserGrants.volume":                                                 {empty, "There are none here to grant"},
	"UserGrants.vpc":                                                    {empty, "There are none here to grant"},
}

// families are those of the structures whose engine_config lacks what can't be chosen.
var families = map[string]string{"MySQLDatabase": "mysql", "PostgresDatabase": "postgresql"}

func reasonFor(path string) (reason, bool) {
	if kind, name, ok := strings.Cut(path, ".engine_config."); ok {
		if why := parameter.Refused(families[kind])[name]; why != "" {
			return reason{absent, "Can't be chosen: " + why}, true
		}
	}
	r, ok := unfilled[path]
	return r, ok
}
