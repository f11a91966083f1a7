//! Who is linked to whom, and what it is called. Nodes are the accelerators and then the switches; links are made accelerator by
//! accelerator, each to all switches, with the accelerator first.

use super::MemoryFabric;
use quincunx_driver_des::{Direction, LinkIndex, NodeIndex};
use quincunx_engine::PortId;

impl MemoryFabric {
    /// How many nodes there are.
    pub(super) const fn nodes(&self) -> u16 {
        self.accelerators + self.switches
    }

    /// What a node is called.
    pub(super) fn name(&self, node: NodeIndex) -> String {
        match node.0.checked_sub(self.accelerators.into()) {
            None => format!("accelerator{}", node.0),
            Some(switch) => format!("switch{switch}"),
        }
    }

    /// All directions of all links, in order.
    pub(crate) fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        let links = u32::from(self.accelerators) * u32::from(self.switches);
        (0..links).map(LinkIndex).flat_map(|link| [link.forward(), link.backward()])
    }

    /// Where a direction begins and ends.
    pub(super) fn ends(&self, direction: Direction) -> [NodeIndex; 2] {
        let (link, switches) = (direction.link.0, u32::from(self.switches));
        let accelerator = NodeIndex(link / switches);
        let switch = NodeIndex(u32::from(self.accelerators) + link % switches);
        if direction.backward { [switch, accelerator] } else { [accelerator, switch] }
    }

    /// What its ends are called.
    pub(crate) fn names(&self, direction: Direction) -> [String; 2] {
        self.ends(direction).map(|end| self.name(end))
    }
}

/// The same of any fabric, for those who watch it.
pub(super) struct Wiring {
    /// By node.
    pub(super) names: Vec<String>,
    /// By link: the node and the port at either end.
    pub(super) ends: Vec<[(NodeIndex, PortId); 2]>,
}

impl Wiring {
    /// All directions of all links, in order.
    pub(super) fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        (0..self.ends.len() as u32).map(LinkIndex).flat_map(|link| [link.forward(), link.backward()])
    }

    /// The node and the port where a direction begins, and those where it ends.
    pub(super) fn ends(&self, direction: Direction) -> [(NodeIndex, PortId); 2] {
        let [first, second] = self.ends[direction.link.0 as usize];
        if direction.backward { [second, first] } else { [first, second] }
    }

    /// What the nodes are called where it begins and where it ends.
    pub(super) fn names(&self, direction: Direction) -> [&str; 2] {
        self.ends(direction).map(|(node, _)| self.names[node.0 as usize].as_str())
    }
}

impl From<&MemoryFabric> for Wiring {
    fn from(fabric: &MemoryFabric) -> Self {
        let names = (0..fabric.nodes()).map(|node| fabric.name(NodeIndex(node.into()))).collect();
        let links = fabric.directions().filter(|direction| !direction.backward);
        let ends = links.map(|link| {
            let [accelerator, switch] = fabric.ends(link);
            let port = PortId((switch.0 - u32::from(fabric.accelerators)) as u16);
            [(accelerator, port), (switch, PortId(accelerator.0 as u16))]
        });
        Self { names, ends: ends.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryFabric;
    use super::Wiring;
    use quincunx_designs::CATALOG;
    use quincunx_driver_des::NodeIndex;
    use quincunx_engine::PortId;
    use quincunx_scenario::{Fabric, Scenario};

    #[test]
    fn every_direction_begins_at_a_port_of_its_own_and_ends_at_another_ones() {
        let scenario = Scenario::find("scin-dgx8", &[], CATALOG).unwrap();
        let Fabric::Memory(fabric) = &scenario.fabric else { panic!("a memory fabric") };
        let fabric = MemoryFabric { accelerators: 3, switches: 2, ..MemoryFabric::from(fabric) };
        let wiring = Wiring::from(&fabric);
        let directions: Vec<_> = fabric.directions().collect();
        assert_eq!(wiring.directions().collect::<Vec<_>>(), directions);
        let mut begins: Vec<_> = directions.iter().map(|&direction| wiring.ends(direction)[0]).collect();
        begins.sort();
        begins.dedup();
        assert_eq!(begins.len(), 12);
        for &direction in &directions {
            assert_eq!(wiring.ends(direction).map(|(node, _)| node), fabric.ends(direction));
            assert_eq!(wiring.names(direction), fabric.names(direction));
        }
        // Port s of an accelerator leads to switch s, port n of a switch to accelerator n.
        let ends = [(NodeIndex(0), PortId(1)), (NodeIndex(4), PortId(0))];
        assert_eq!(wiring.ends(directions[2]), ends);
        assert_eq!(wiring.names(directions[3]), ["switch1", "accelerator0"]);
    }
}
