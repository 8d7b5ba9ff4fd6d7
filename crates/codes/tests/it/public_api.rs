//! The public face of the crate, as a list: `public-api.txt`. A change of it is seen, and raises the version (README,
//! Stability).
//!
//! The list is made from the source: every item that a path of public modules and re-exports leads to, with its fields,
//! variants, methods and trait implementations, each a line.

use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, UseTree, Visibility};

/// The modules on the way to an item, and its name.
type ItemPath = Vec<String>;

/// The source, by module.
#[derive(Default)]
struct Source {
    /// What is defined in a module, by name.
    items: BTreeMap<ItemPath, Item>,
    /// What a module calls by another path: its own path and name, the other path, is it public?
    uses: BTreeMap<ItemPath, (ItemPath, bool)>,
    /// Where implementations are.
    impls: Vec<(ItemPath, ItemImpl)>,
}

impl Source {
    /// Reads the module of a file and those below it.
    fn read(&mut self, module: &[String], file: &Path, folder: &Path) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(module, parsed.items, folder);
    }

    fn add(&mut self, module: &[String], items: Vec<Item>, folder: &Path) {
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(mut child) => {
                    let name = child.ident.to_string();
                    let below = joined(module, &name);
                    match child.content.take() {
                        Some((_, items)) => self.add(&below, items, &folder.join(&name)),
                        None => self.read(&below, &folder.join(format!("{name}.rs")), &folder.join(&name)),
                    }
                    self.items.insert(below, Item::Mod(child));
                }
                Item::Use(tree) => self.add_uses(module, Vec::new(), &tree.tree, is_public(&tree.vis)),
                Item::Impl(block) => self.impls.push((module.to_vec(), block)),
                item => {
                    if let Some(name) = name(&item) {
                        self.items.insert(joined(module, &name), item);
                    }
                }
            }
        }
    }

    fn add_uses(&mut self, module: &[String], prefix: ItemPath, tree: &UseTree, public: bool) {
        let mut add = |name: String, target: ItemPath| {
            self.uses.insert(joined(module, &name), (target, public));
        };
        match tree {
            UseTree::Path(path) => {
                let prefix = joined(&prefix, &path.ident.to_string());
                self.add_uses(module, prefix, &path.tree, public);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_uses(module, prefix.clone(), tree, public))
            }
            UseTree::Name(name) if name.ident == "self" => {
                add(prefix.last().cloned().unwrap_or_default(), prefix.clone());
            }
            UseTree::Name(name) => add(name.ident.to_string(), joined(&prefix, &name.ident.to_string())),
            UseTree::Rename(name) => add(name.rename.to_string(), joined(&prefix, &name.ident.to_string())),
            UseTree::Glob(_) => assert!(!public, "public names are named"),
        }
    }

    /// Where the item is defined that a module calls so; `None` for what is not of this crate.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<ItemPath> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module.split_last()?.1.to_vec(),
            name => {
                let own = joined(module, name);
                // A module and a function may share a name; a path goes through the module.
                let is_module = !rest.is_empty() && matches!(self.items.get(&own), Some(Item::Mod(_)));
                match self.uses.get(&own).filter(|_| !is_module) {
                    Some((target, _)) => self.resolve(module, target)?,
                    None => Some(own).filter(|own| self.items.contains_key(own))?,
                }
            }
        };
        match rest.is_empty() {
            true => Some(start),
            false => self.resolve(&start, rest),
        }
    }

    /// Everything public: by the path that others write, where it is defined.
    fn public(&self, module: &[String], shown: &[String], found: &mut BTreeSet<(ItemPath, ItemPath)>) {
        let is_here = |path: &&ItemPath| path.len() == module.len() + 1 && path.starts_with(module);
        for path in self.items.keys().filter(is_here) {
            let item = &self.items[path];
            if visibility(item).is_some_and(is_public) && !is_hidden(attributes(item)) {
                found.insert((joined(shown, path.last().expect("a name")), path.clone()));
                if matches!(item, Item::Mod(_)) {
                    self.public(path, &joined(shown, path.last().expect("a name")), found);
                }
            }
        }
        for (path, (target, public)) in self.uses.iter().filter(|(path, _)| is_here(path)) {
            if let Some(definition) = self.resolve(module, target).filter(|_| *public) {
                found.insert((joined(shown, path.last().expect("a name")), definition));
            }
        }
    }
}

fn joined(module: &[String], name: &str) -> ItemPath {
    [module, &[name.to_owned()]].concat()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| written(attribute) == "#[cfg(test)]")
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| written(attribute) == "#[doc(hidden)]")
}

/// One line, spaced as people do.
fn written(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (spaced, close) in [
        (" ::", "::"),
        (":: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" ;", ";"),
        (" :", ":"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" [", "["),
        ("[ ", "["),
        (" ]", "]"),
        ("& ", "&"),
        ("# [", "#["),
        ("# ", "#"),
        (",)", ")"),
        (" !", "!"),
        ("-> [", "->["),
        ("-> (", "->("),
    ] {
        text = text.replace(spaced, close);
    }
    text.replace("->", " -> ").replace("  ", " ").replace("=[", "= [").replace(":&", ": &")
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn visibility(item: &Item) -> Option<&Visibility> {
    match item {
        Item::Const(item) => Some(&item.vis),
        Item::Enum(item) => Some(&item.vis),
        Item::Fn(item) => Some(&item.vis),
        Item::Mod(item) => Some(&item.vis),
        Item::Static(item) => Some(&item.vis),
        Item::Struct(item) => Some(&item.vis),
        Item::Trait(item) => Some(&item.vis),
        Item::Type(item) => Some(&item.vis),
        _ => None,
    }
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The lines of an item, but for its implementations.
fn lines(path: &str, item: &Item) -> Vec<String> {
    let mut lines = Vec::new();
    let conditions: Vec<String> = attributes(item)
        .iter()
        .map(written)
        .filter(|attribute| ["#[cfg(", "#[derive(", "#[non_exhaustive"].iter().any(|kind| attribute.starts_with(kind)))
        .collect();
    let with = |line: String| [&conditions[..], &[line]].concat().join(" ");
    match item {
        Item::Mod(_) => lines.push(with(format!("mod {path}"))),
        Item::Const(item) => lines.push(with(format!("const {path}: {}", written(&item.ty)))),
        Item::Static(item) => lines.push(with(format!("static {path}: {}", written(&item.ty)))),
        Item::Type(item) => lines.push(with(format!("type {path}{} = {}", written(&item.generics), written(&item.ty)))),
        Item::Fn(item) => lines.push(with(format!("fn {path}: {}", written(&item.sig)))),
        Item::Struct(item) => {
            lines.push(with(format!("struct {path}{}", written(&item.generics))));
            let public = item.fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis));
            lines.extend(public.map(|(index, field)| {
                let name = field.ident.as_ref().map_or(index.to_string(), |name| name.to_string());
                format!("field {path}.{name}: {}", written(&field.ty))
            }));
            // Whoever may name all fields may make one, and sees a new field.
            if item.fields.iter().any(|field| !is_public(&field.vis)) {
                lines.push(format!("field {path}: private ones"));
            }
        }
        Item::Enum(item) => {
            lines.push(with(format!("enum {path}{}", written(&item.generics))));
            lines.extend(item.variants.iter().map(|variant| {
                let fields: Vec<String> = variant
                    .fields
                    .iter()
                    .map(|field| match &field.ident {
                        Some(name) => format!("{name}: {}", written(&field.ty)),
                        None => written(&field.ty),
                    })
                    .collect();
                let fields = match &variant.fields {
                    Fields::Unit => String::new(),
                    Fields::Named(_) => format!(" {{ {} }}", fields.join(", ")),
                    Fields::Unnamed(_) => format!("({})", fields.join(", ")),
                };
                format!("variant {path}::{}{fields}", variant.ident)
            }));
        }
        Item::Trait(item) => {
            let bounds = written(&item.supertraits);
            lines.push(with(format!("trait {path}: {bounds}")));
            lines.extend(item.items.iter().map(|member| match member {
                TraitItem::Fn(method) => format!("method {path}: {}", written(&method.sig)),
                other => format!("member {path}: {}", written(other)),
            }));
        }
        _ => {}
    }
    lines
}

/// The public face, a line each.
fn listing() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut source = Source::default();
    source.read(&[], &root.join("lib.rs"), &root);
    let mut found = BTreeSet::new();
    source.public(&[], &[], &mut found);
    let mut all = BTreeSet::new();
    // The shortest path to each definition stands for all of them.
    let mut shown: BTreeMap<&ItemPath, String> = BTreeMap::new();
    for (path, definition) in &found {
        let path = path.join("::");
        match shown.get(definition) {
            Some(other) => all.extend([format!("use {path} = {other}")]),
            None => {
                all.extend(lines(&path, &source.items[definition]));
                shown.insert(definition, path);
            }
        }
    }
    for (module, block) in &source.impls {
        let Type::Path(of) = &*block.self_ty else { continue };
        let of: ItemPath = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let Some(path) = source.resolve(module, &of).and_then(|definition| shown.get(&definition)) else { continue };
        match &block.trait_ {
            Some((_, of, _)) => all.extend([format!("impl {path}: {}", written(of))]),
            None => all.extend(block.items.iter().filter_map(|member| match member {
                ImplItem::Fn(method) if is_public(&method.vis) => {
                    Some(format!("method {path}: {}", written(&method.sig)))
                }
                ImplItem::Const(constant) if is_public(&constant.vis) => {
                    Some(format!("const {path}::{}: {}", constant.ident, written(&constant.ty)))
                }
                _ => None,
            })),
        }
    }
    let lines: Vec<String> = all.into_iter().collect();
    format!("weft-codes {}\n{}\n", env!("CARGO_PKG_VERSION"), lines.join("\n"))
}

#[test]
fn the_public_face_is_as_listed() {
    let listing = listing();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("public-api.txt");
    let known = std::fs::read_to_string(&committed).unwrap_or_default();
    if known == listing {
        return;
    }
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("public-api.txt");
    std::fs::write(&made, &listing).expect("the target folder can be written");
    let missing = |from: &str, other: &str| {
        let other: BTreeSet<String> = other.lines().map(str::to_owned).collect();
        from.lines().filter(|line| !other.contains(*line)).map(str::to_owned).collect::<Vec<_>>().join("\n  ")
    };
    panic!(
        "the public interface has changed.\nremoved or changed:\n  {}\nadded:\n  {}\nIf that is meant, raise the version as README.md says under Stability and run: cp {} {}",
        missing(&known, &listing),
        missing(&listing, &known),
        made.display(),
        committed.display(),
    );
}
