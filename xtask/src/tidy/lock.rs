//! The dependency graph in `Cargo.lock`.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use npb_catalogue::Result;

/// Name and version of a locked package.
pub(crate) type PackageId = (String, String);

#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Parsed `Cargo.lock`.
pub(crate) struct Lock {
    packages: BTreeMap<PackageId, Vec<PackageId>>,
}

impl Lock {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let file: LockFile = toml::from_str(text).map_err(|e| format!("Cargo.lock: {e}"))?;
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in &file.package {
            versions
                .entry(&package.name)
                .or_default()
                .push(&package.version);
        }
        let resolve = |entry: &String| {
            // "name", or "name version" where several versions are locked.
            let mut words = entry.split(' ');
            let name = words.next()?;
            let version = match words.next() {
                Some(version) => version,
                None => versions.get(name)?.first()?,
            };
            Some((name.to_owned(), version.to_owned()))
        };
        let packages = file.package.iter().map(|package| {
            let id = (package.name.clone(), package.version.clone());
            (
                id,
                package.dependencies.iter().filter_map(resolve).collect(),
            )
        });
        Ok(Self {
            packages: packages.collect(),
        })
    }

    /// Everything reachable from workspace member `from` when only `direct` (package names) of its own dependencies
    /// count, each with the names on a shortest way to it. The lock file does not tell a member's dev-dependencies
    /// from its normal ones, hence `direct`; of packages from a registry it holds no dev-dependencies.
    pub(crate) fn reachable(
        &self,
        from: &str,
        direct: &dyn Fn(&str, &str) -> bool,
    ) -> BTreeMap<PackageId, Vec<String>> {
        let mut ways: BTreeMap<PackageId, Vec<String>> = BTreeMap::new();
        let mut queue = VecDeque::new();
        for id in self.packages.keys().filter(|(name, _)| name == from) {
            ways.insert(id.clone(), vec![from.to_owned()]);
            queue.push_back(id.clone());
        }
        while let Some(id) = queue.pop_front() {
            let way = ways[&id].clone();
            for next in self.packages.get(&id).into_iter().flatten() {
                if !direct(&id.0, &next.0) || ways.contains_key(next) {
                    continue;
                }
                let mut longer = way.clone();
                longer.push(next.0.clone());
                ways.insert(next.clone(), longer);
                queue.push_back(next.clone());
            }
        }
        ways
    }
}
